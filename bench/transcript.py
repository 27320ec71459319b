"""The transcript under load: ``python bench/transcript.py``.

Prints the time to load a long chat, the share of a core taken while a reply streams into it (all that Textual does
included but the write to the terminal), and how long a key press waits meanwhile."""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import sys
import time
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from msgspec.structs import replace
from textual.events import Key

from tests.ui.talk import RICH, TalkApp, long_chat, reply

STATE_RATE = 30
"""Changes of the state a second, as the session makes them."""
PROSE = RICH * 60
CODE = "```python\n" + "def function(number):\n    return number * 2  # twice\n\n\n" * 4_000
TABLE = "| a | b |\n|---|---|\n" + "| a cell of some words | another |\n" * 4_000
CHARACTERS = 4
"""Of one token."""


class Timed(TalkApp):
    """Renders as on a terminal, and notes when a key press arrives where keys are handled."""

    is_headless = False

    def on_mount(self) -> None:
        self.pressed: deque[float] = deque()
        self.lags: list[float] = []

    def press(self) -> None:
        self.pressed.append(time.perf_counter())
        self.post_message(Key("x", "x"))

    def on_key(self, event: Key) -> None:
        self.lags.append(time.perf_counter() - self.pressed.popleft())


async def load(messages: int) -> float:
    """Seconds from setting the turns to the first frame that shows them."""
    app = Timed()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        turns = long_chat(messages)
        started = time.perf_counter()
        app.transcript.turns = turns
        await pilot.pause()
        assert app.transcript.lines.total > messages
        return time.perf_counter() - started


async def press_keys(app: Timed) -> None:
    """At moments that have nothing to do with the frames."""
    chance = random.Random(0)
    while True:
        await asyncio.sleep(chance.uniform(0.02, 0.08))
        app.press()


async def stream(text: str, rate: int, seconds: float, messages: int) -> tuple[float, float]:
    """Share of a core, and the 99th percentile of the key lag in seconds."""
    app = Timed(*long_chat(messages))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        app.transcript.focus()
        keys = asyncio.create_task(press_keys(app))
        started, cpu = time.perf_counter(), time.process_time()
        state = reply("", turn_id="streaming")
        while (passed := time.perf_counter() - started) < seconds:
            state = replace(state, answer=text[: int(passed * rate) * CHARACTERS])
            app.transcript.reply = state
            await asyncio.sleep(1 / STATE_RATE)
        share = (time.process_time() - cpu) / (time.perf_counter() - started)
        keys.cancel()
        await pilot.pause()
        assert app.transcript.max_scroll_y == app.transcript.scroll_y > messages
    lags = sorted(app.lags)
    return share, lags[int(len(lags) * 0.99)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    options = parser.parse_args()
    seconds = sorted(asyncio.run(load(options.messages)) for _ in range(5))[2]
    print(f"load {options.messages:,} messages: {seconds * 1000:.0f} ms (median of 5)")
    print(f"{'streaming':<24}{'tok/s':>6}{'core':>8}{'key lag p99':>14}")
    for name, text in (("Markdown", PROSE), ("endless code block", CODE), ("endless table", TABLE)):
        for rate in (100, 500):
            share, lag = asyncio.run(stream(text, rate, options.seconds, options.messages))
            print(f"{name:<24}{rate:>6}{share:>8.0%}{lag * 1000:>11.0f} ms")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"largest memory: {memory / (2**20 if sys.platform == 'darwin' else 2**10):.0f} MiB")


if __name__ == "__main__":
    main()
