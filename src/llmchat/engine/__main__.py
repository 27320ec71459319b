"""``python -m llmchat.engine [--fake HARDWARE.json]``: the engine process. Speaks JSON lines with its parent."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from pathlib import Path

from llmchat.engine.channel import Channel, die_with_parent
from llmchat.protocol import Hello

ENVIRONMENT = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
"""The parent downloads, so that the engine never waits for a network; GPUs are numbered as NVML numbers them."""

DEFAULTS = {
    "GOMP_SPINCOUNT": "1000",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
}
"""Unless the person set them. The first: how long OpenMP's threads wait by spinning. SmolLM2-135M on two cores,
tokens/s alone and beside one busy process: 44 and hardly 1 as it comes (300,000), 43 and 11 with 5,000, 39 and 23
with 1,000, 28 and 30 with none. The second: a KV cache that grows by concatenation leaves holes. With 64k tokens
on an H200 torch had reserved 34 GiB of which 2 were ever in use; with segments that expand, at most 3.4. Both
measured on 2026-12-01."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m llmchat.engine", description=__doc__)
    parser.add_argument("--fake", type=Path, metavar="HARDWARE.json", help="pretend, on this machine")
    arguments = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    die_with_parent()
    channel = Channel.over_stdio()
    channel.send(Hello(pid=os.getpid()))
    try:
        _work(channel, arguments.fake)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # the reader thread waits for stdin: an orderly exit would wait for it


def _work(channel: Channel, fake_hardware: Path | None) -> None:
    if fake_hardware:
        from llmchat.engine.fake import main as pretend

        pretend(channel, fake_hardware)
    else:
        from llmchat.engine.service import serve

        serve(channel)


if __name__ == "__main__":
    main()
