"""``python -m llmchat.engine [--fake HARDWARE.json]``: the engine process. Speaks JSON lines with its parent."""

from __future__ import annotations

import argparse
import os
import sys
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m llmchat.engine", description=__doc__)
    parser.add_argument("--fake", type=Path, metavar="HARDWARE.json", help="pretend, on this machine")
    arguments = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    die_with_parent()
    channel = Channel.over_stdio()
    channel.send(Hello(pid=os.getpid()))
    if arguments.fake:
        from llmchat.engine import fake

        fake.main(channel, arguments.fake)
    else:
        from llmchat.engine import service

        service.serve(channel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
