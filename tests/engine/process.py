"""The real engine process over real pipes, for tests."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from llmchat.protocol import AnyCommand, AnyEvent, decode_event, encode

E = TypeVar("E")


class Engine:
    """``python -m llmchat.engine`` with its events in a queue and its stderr in a file."""

    def __init__(self, log: Path, code: str = "") -> None:
        """``code`` runs in the engine before it starts, to stand for a noisy library."""
        start = f"{code}\nimport runpy; runpy.run_module('llmchat.engine', run_name='__main__')"
        self.log = log
        self._log_file = log.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log_file,
        )
        self.seen: list[AnyEvent] = []
        self._events: SimpleQueue[AnyEvent | None] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._events.put(decode_event(line))
        self._events.put(None)

    def send(self, command: AnyCommand) -> None:
        self.send_line(encode(command))

    def send_line(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def wait(self, *kinds: type[E], timeout: float = 60, where: Callable[[E], bool] = lambda event: True) -> E:
        """The next event of one of these kinds."""
        end = time.monotonic() + timeout
        while True:
            try:
                event = self._events.get(timeout=max(0.01, end - time.monotonic()))
            except Empty:
                raise AssertionError(
                    f"no {kinds}; seen {self.seen[-3:]}; {self.log.read_text()[-2000:]}"
                ) from None
            assert event is not None, f"the engine ended: {self.log.read_text()[-2000:]}"
            self.seen.append(event)
            if isinstance(event, kinds) and where(event):
                return event

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self._log_file.close()
