"""A real terminal for a real program: a pty whose output a terminal emulator (pyte) turns into a screen."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import pexpect
import pyte

KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "f1": "\x1bOP",
    "f2": "\x1bOQ",
    "f3": "\x1bOR",
    "f4": "\x1bOS",
    "ctrl+b": "\x02",
    "ctrl+c": "\x03",
    "ctrl+n": "\x0e",
    "ctrl+q": "\x11",
    "ctrl+r": "\x12",
}

PAUSE = 0.25
"""Seconds between two keys; Textual waits 0.1 s for what may follow an Escape."""


class Terminal:
    """Runs ``argv`` at ``columns`` x ``rows``; a context manager that leaves no process behind."""

    def __init__(
        self, argv: Sequence[str], *, columns: int = 100, rows: int = 30, env: Mapping[str, str] | None = None
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        full = {**inherited, "TERM": "xterm-256color", "COLORTERM": "truecolor", **(env or {})}
        self.process = pexpect.spawn(argv[0], list(argv[1:]), dimensions=(rows, columns), env=full, timeout=5)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.close(force=True)

    @property
    def text(self) -> str:
        """The screen as it stands, one line per row."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def pump(self, seconds: float = 0.05) -> None:
        """Read what has come for up to ``seconds``."""
        with contextlib.suppress(pexpect.TIMEOUT, pexpect.EOF):
            self._stream.feed(self.process.read_nonblocking(65536, timeout=seconds))

    def wait(self, condition: Callable[[str], object] | str, timeout: float = 60.0) -> str:
        """Wait until the screen contains a text or meets a condition; the screen is in the failure."""
        found = (lambda text: condition in text) if isinstance(condition, str) else condition
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self.pump()
            if found(self.text):
                return self.text
            if not self.process.isalive():
                self.pump()
                break
        raise AssertionError(f"not seen: {condition}\n--- screen ---\n{self.text}")

    def type(self, text: str) -> None:
        self.process.send(text)

    def press(self, *names: str) -> None:
        """Press keys by name, as slowly as a person: an Escape just before another key would be part of it."""
        for name in names:
            self.process.send(KEYS[name])
            end = time.monotonic() + PAUSE
            while time.monotonic() < end:
                self.pump()

    def wait_exit(self, timeout: float = 20.0) -> int:
        """The exit code, once the program has ended by itself."""
        end = time.monotonic() + timeout
        while self.process.isalive() and time.monotonic() < end:
            self.pump()
        assert not self.process.isalive(), f"still running\n--- screen ---\n{self.text}"
        self.process.close()
        return int(self.process.exitstatus if self.process.exitstatus is not None else -1)
