"""A reply on its way to the screen: tokens in, Deltas out, at most 30 a second."""

from __future__ import annotations

import time
from collections.abc import Callable

from llmchat.engine.reply.detokenize import Detokenizer
from llmchat.engine.reply.thinking import Part, Splitter
from llmchat.protocol import AnyEvent, Delta

INTERVAL = 1 / 30
"""Seconds between two Deltas; the first is sent at once."""


class ReplyStream:
    """Counts and times the tokens of one reply, and sends their text."""

    def __init__(
        self, id: int, send: Callable[[AnyEvent], None], detokenizer: Detokenizer, splitter: Splitter
    ) -> None:
        self._id, self._send = id, send
        self._detokenizer, self._splitter = detokenizer, splitter
        self._waiting: list[Part] = []
        self._sent = 0.0
        self.tokens = 0
        self.first: float | None = None
        """When the first token came, in monotonic seconds."""
        self.last = 0.0

    def push(self, token: int, *, ends: bool = False) -> None:
        """One more token; ``ends``: it only ends the reply and has no text."""
        self.tokens += 1
        self.last = time.monotonic()
        self.first = self.first or self.last
        if ends:
            return
        self._waiting += self._splitter.push(self._detokenizer.push(token))
        if self.last - self._sent >= INTERVAL:
            self._flush()

    def finish(self) -> None:
        """Send all that is left. Call once, however the reply ended."""
        self._waiting += self._splitter.push(self._detokenizer.flush()) + self._splitter.flush()
        self._flush()

    def _flush(self) -> None:
        """One Delta for each run of text of one kind."""
        merged: list[Part] = []
        for kind, text in self._waiting:
            if merged and merged[-1][0] == kind:
                merged[-1] = (kind, merged[-1][1] + text)
            else:
                merged.append((kind, text))
        self._waiting = []
        for kind, text in merged:
            self._send(Delta(id=self._id, text=text, tokens=self.tokens, kind=kind))
            self._sent = self.last
