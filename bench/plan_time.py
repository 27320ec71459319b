"""How long ``llmchat plan`` takes from facts that are known, the whole process.

    python bench/plan_time.py [--runs 15]

Of SmolLM2's shape and of Llama-3.1-405B's, each on a machine of four GPUs, of none, and on this one; the engine
finds out the facts once, before the clock starts. Also says whether the process imported torch. Asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import GIB

DATA = Path(__file__).parents[1] / "tests" / "data"
MODELS = ("smollm2-135m-instruct", "llama-3.1-405b-instruct")
FOUR, NONE = "h200-x4", "no-gpu-24gb"
HEAVY = ("torch", "transformers", "accelerate", "bitsandbytes", "textual")
"""Packages that a plan from known facts has no use for."""
MARK = "imported:"
SEE_IMPORTS = (
    "import sys\n"
    "from llmchat.cli import main\n"
    "main()\n"
    f"print({MARK!r}, *(name for name in {HEAVY!r} if name in sys.modules))\n"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15, help="(default 15; one more warms up and is not counted)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="llmchat-bench-") as place:
        home = Path(place)
        print("| model | machine | median | runs |\n|---|---|---|---|", flush=True)
        imported: set[str] = set()
        for name in MODELS:
            folder = model_folder(home, name)
            for machine in (four_gpus(home), DATA / "hardware" / f"{NONE}.json", None):
                options = [str(folder), *(("--hardware", str(machine)) if machine else ())]
                once(options, home)
                times = sorted(once(options, home) for _ in range(arguments.runs))
                spread = f"{times[0]:.3f} to {times[-1]:.3f}"
                where = machine.stem if machine else "this one"
                print(
                    f"| {name} | {where} | {statistics.median(times):.3f} s ({spread}) | {len(times)} |",
                    flush=True,
                )
                imported.update(heavy_imports(options, home))
    print(f"\nOf {', '.join(HEAVY)} imported: {', '.join(sorted(imported)) or 'none'}.")


def model_folder(home: Path, name: str) -> Path:
    """Everything but weights: the config, and a tokenizer's settings."""
    folder = home / "models" / name
    folder.mkdir(parents=True)
    shutil.copy(DATA / "configs" / f"{name}.json", folder / "config.json")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    return folder


def four_gpus(home: Path) -> Path:
    """Half of the machine of eight, written to ``home``."""
    whole = msgspec.json.decode((DATA / "hardware" / "h200-x8.json").read_bytes(), type=HardwareProfile)
    half = msgspec.structs.replace(whole, name="4 x H200", gpus=whole.gpus[:4], ram_available=512 * GIB)
    file = home / f"{FOUR}.json"
    file.write_bytes(msgspec.json.encode(half))
    return file


def once(options: list[str], home: Path) -> float:
    """Seconds from just before the process is made to its end. That nothing fits is an answer as well."""
    start = time.perf_counter()
    done = run([str(Path(sys.executable).with_name("llmchat")), "plan", *options], home)
    seconds = time.perf_counter() - start
    if not done.stdout:
        raise SystemExit(f"llmchat plan {' '.join(options)} failed:\n{done.stderr}")
    return seconds


def heavy_imports(options: list[str], home: Path) -> list[str]:
    """Of HEAVY, what a process that makes this plan has imported at its end."""
    done = run([sys.executable, "-c", SEE_IMPORTS, "plan", *options], home)
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if len(lines) != 1:
        raise SystemExit(f"llmchat plan {' '.join(options)} failed:\n{done.stdout}{done.stderr}")
    return lines[0].removeprefix(MARK).split()


def run(argv: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LLMCHAT_HOME": str(home / "llmchat"), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    main()
