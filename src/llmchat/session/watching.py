"""The memory sampler in a thread of its own; each sample goes into the state on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from llmchat.protocol import Held
from llmchat.session.process.engine_host import EngineHost
from llmchat.session.state import MemorySample, Phase
from llmchat.session.store import Store
from llmchat.session.unexpected import unexpected

T = TypeVar("T")

CALM, LIVELY = 1.0, 0.5
"""Seconds between samples; the second while memory fills."""
KEPT = 120.0
"""Seconds of history."""


class Samples(Protocol):
    def sample(self, held: Mapping[str, Held], engine_pid: int | None) -> MemorySample: ...


class MemoryWatch:
    """``make`` is called in the thread: what it imports does not hold up the first paint."""

    def __init__(self, store: Store, engine: EngineHost, make: Callable[[], Samples]) -> None:
        self._store, self._engine, self._make = store, engine, make
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._delivered = threading.Event()
        self._delivered.set()

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, args=(loop,), name="llmchat-memory", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        sampler: Samples | None = None
        while not self._ended.is_set():
            try:
                sampler = sampler or self._make()
                if self._delivered.is_set():  # else the loop is behind: samples may be skipped
                    sample = sampler.sample(self._engine.held, self._engine.pid)
                    self._delivered.clear()
                    self._call(loop, self._deliver, sample)
            except Exception as error:  # whatever a driver does, the chat goes on
                self._call(loop, self._complain, error)
            filling = self._store.state.phase in (Phase.LOADING, Phase.SWITCHING)
            self._ended.wait(LIVELY if filling else CALM)

    def _call(self, loop: asyncio.AbstractEventLoop, function: Callable[[T], None], value: T) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(function, value)

    def _complain(self, error: Exception) -> None:
        self._store.warn(unexpected("The memory cannot be read", error))

    def _deliver(self, sample: MemorySample) -> None:
        self._delivered.set()
        if not self._ended.is_set():
            recent = tuple(s for s in self._store.state.history if s.time > sample.time - KEPT)
            self._store.update(memory=sample, history=(*recent, sample))
