"""How long from starting ``llmchat`` to the first painted frame, in a real terminal (a pty and an emulator).

    python bench/first_paint.py [--runs 15] [-- any options of llmchat]

Prints one line for each of: the first bytes, the first frame that is not empty, and the first that shows the
name of the program. Asserts nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pexpect
import pyte

LIMIT = 30.0
"""Seconds after which a run has failed."""
MARKS = ("first bytes", "first frame", "title shown")


def one_run(argv: list[str], home: Path) -> dict[str, float]:
    """Seconds from just before the process is made to each mark."""
    screen = pyte.Screen(100, 30)
    stream = pyte.ByteStream(screen)
    seen: dict[str, float] = {}
    environment = {"LLMCHAT_HOME": str(home), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    start = time.perf_counter()
    process = pexpect.spawn(argv[0], argv[1:], dimensions=(30, 100), env={**os.environ, **environment}, timeout=5)
    try:
        while len(seen) < len(MARKS) and time.perf_counter() - start < LIMIT:
            with contextlib.suppress(pexpect.TIMEOUT):
                stream.feed(process.read_nonblocking(65536, timeout=0.05))
                now = time.perf_counter() - start
                text = "\n".join(screen.display)
                for mark, there in zip(MARKS, (True, bool(text.strip()), "llmchat" in text.lower()), strict=True):
                    if there:
                        seen.setdefault(mark, now)
    except pexpect.EOF:
        raise SystemExit("llmchat ended before it painted:\n" + "\n".join(screen.display)) from None
    finally:
        process.send("\x11")
        with contextlib.suppress(pexpect.TIMEOUT, pexpect.EOF):
            process.expect(pexpect.EOF, timeout=10)
        process.close(force=True)
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=15, help="(default 15; one more warms up and is not counted)")
    parser.add_argument("options", nargs="*", help="for llmchat, after --")
    arguments = parser.parse_args()
    program = str(Path(sys.executable).with_name("llmchat"))
    with tempfile.TemporaryDirectory() as home:
        one_run([program, *arguments.options], Path(home))
        runs = [one_run([program, *arguments.options], Path(home)) for _ in range(arguments.runs)]
    for mark in MARKS:
        times = sorted(run[mark] for run in runs if mark in run)
        if times:
            spread = f"{times[0]:.3f} to {times[-1]:.3f}"
            print(f"{mark}: median {statistics.median(times):.3f} s ({spread}, {len(times)} runs)")


if __name__ == "__main__":
    main()
