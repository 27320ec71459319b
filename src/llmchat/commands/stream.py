"""Writing while it happens: the answer on standard output, one progress line on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from llmchat.commands import words
from llmchat.session.state import SessionState

_KEPT = frozenset("\n\t")


def harmless(text: str) -> str:
    """``text`` without control characters (escape sequences among them): a model's output must not steer a
    terminal."""
    return "".join(c for c in text if c in _KEPT or not (c < " " or "\x7f" <= c <= "\x9f"))


class Stream:
    """Prints what of the answer has not been printed. To a terminal, control characters are left out."""

    def __init__(
        self, *, quiet: bool = False, out: TextIO | None = None, on_broken: Callable[[], object] | None = None
    ) -> None:
        """``on_broken`` is called once, when the reader has gone away: it is no error of the listener that
        prints."""
        self.broken = False
        self._out = out or sys.stdout
        self._on_broken = on_broken
        self._quiet = quiet
        self._terminal = self._out.isatty()
        self._shown = 0
        self._last = ""

    def show(self, answer: str) -> None:
        """``answer``: all of it so far."""
        if not self._quiet and len(answer) > self._shown:
            self.write(answer[self._shown :])
            self._shown = len(answer)

    def end(self, answer: str) -> None:
        """The rest, and the end of its last line."""
        self.show(answer)
        if self._shown and self._last != "\n":
            self.write("\n")

    def write(self, text: str) -> None:
        if self.broken:
            return
        self._last = text[-1:]
        try:
            self._out.write(harmless(text) if self._terminal else text)
            self._out.flush()
        except BrokenPipeError:
            self.broken = True
            if self._on_broken:
                self._on_broken()


class Progress:
    """One line, written over; nothing at all where standard error is not a terminal."""

    def __init__(self, err: TextIO | None = None) -> None:
        self._err = err or sys.stderr
        self._on = self._err.isatty()
        self._line = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def show(self, state: SessionState) -> None:
        """The step that is going on; cleared when the answer begins."""
        line = words.step(state.step) if state.step else ""
        if state.reply:
            line = "" if state.reply.answer else "Thinking" if state.reply.thinking else "Reading the prompt"
        if self._on and line != self._line:
            self._err.write(f"\r\x1b[K{harmless(line)[:78]}")
            self._err.flush()
            self._line = line

    def clear(self) -> None:
        if self._line:
            self._err.write("\r\x1b[K")
            self._err.flush()
            self._line = ""
