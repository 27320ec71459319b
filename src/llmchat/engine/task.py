"""A running command: its progress, and the flag that stops it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal

from llmchat.errors import Cancelled
from llmchat.protocol import AnyEvent, Progress

INTERVAL = 0.05
"""Seconds between two Progress events of one stage; the screen draws no faster."""


class Task:
    """One command while it runs. ``cancel`` is called by the reader thread, all else by the worker."""

    def __init__(self, id: int, send: Callable[[AnyEvent], None]) -> None:
        self.id = id
        self._send = send
        self._cancelled = threading.Event()
        self._stage = ""
        self._sent = 0.0

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        self._cancelled.set()

    def check(self) -> None:
        """Raises Cancelled once the person has stopped this command."""
        if self.cancelled:
            raise Cancelled("Stopped", "Stopped at your request.")

    def progress(
        self, stage: str, done: int = 0, total: int = 0, unit: Literal["bytes", "tensors", "tokens", ""] = ""
    ) -> None:
        """Tell how far it is; ``total`` 0: not known. Every stage and its end is sent, else one in INTERVAL."""
        now = time.monotonic()
        ended = 0 < total <= done
        if stage == self._stage and not ended and now - self._sent < INTERVAL:
            return
        self._stage, self._sent = stage, now
        self._send(Progress(id=self.id, stage=stage, done=done, total=total, unit=unit))
