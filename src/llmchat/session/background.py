"""Tasks that nobody waits for: kept alive, a failure told in a notice, cancelled together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from llmchat.errors import LlmchatError
from llmchat.session.store import Store
from llmchat.session.unexpected import unexpected


class Background:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def cancel(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, LlmchatError):
            self._store.warn(error)
        elif error is not None:
            self._store.warn(unexpected("Something went wrong in the background", error))
