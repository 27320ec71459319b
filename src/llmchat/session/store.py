"""Holds the one ``SessionState`` and tells listeners about every change of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from llmchat.errors import EngineDied, LlmchatError
from llmchat.session.state import Notice, SessionState, Step

Listener = Callable[[SessionState], None]


class Store:
    def __init__(self) -> None:
        self.state = SessionState()
        self._listeners: list[Listener] = []
        self.log: Callable[[str], object] = lambda text: None
        """Takes the details of errors."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def update(self, **changes: Any) -> None:
        """Replace fields of the state; listeners are called at once, on this thread (the event loop's)."""
        self.state = msgspec.structs.replace(self.state, **changes)
        for listener in tuple(self._listeners):
            listener(self.state)

    def step(self, stage: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        """What is going on; the clock goes on while the stage keeps its name."""
        now = self.state.step
        started = now.started if now and now.stage == stage else asyncio.get_running_loop().time()
        self.update(step=Step(stage=stage, done=done, total=total, unit=unit, started=started))  # type: ignore[arg-type]

    def notice(self, text: str, severity: str = "info", after: int | None = None) -> None:
        """A line in the chat, after its last turn unless said otherwise."""
        turns = len(self.state.chat.turns) if self.state.chat else 0
        line = Notice(after=turns if after is None else after, text=text, severity=severity)  # type: ignore[arg-type]
        self.update(notices=(*self.state.notices, line))

    def fail(self, error: LlmchatError, **changes: Any) -> None:
        """Put the error before the person's eyes, with the other changes, in one step."""
        self._log_detail(error)
        self.update(problem=error.problem, **changes)

    def warn(self, error: LlmchatError) -> None:
        """A notice, once, for what failed without anybody waiting for it: no dialog over what the person does."""
        text = f"{error.title}: {error.message}"
        self._log_detail(error)
        if text not in {notice.text for notice in self.state.notices}:
            self.notice(text, "warning")

    def _log_detail(self, error: LlmchatError) -> None:
        """The detail of a death is the end of the log itself."""
        if error.detail and not isinstance(error, EngineDied):
            self.log(f"{error.title}: {error.message}\n{error.detail}")

    async def changes(self) -> AsyncIterator[SessionState]:
        """The state now and after changes; a slow reader sees the newest and misses some between."""
        changed = asyncio.Event()
        changed.set()
        unsubscribe = self.subscribe(lambda _: changed.set())
        try:
            while True:
                await changed.wait()
                changed.clear()
                yield self.state
        finally:
            unsubscribe()

    async def wait(self, condition: Callable[[SessionState], bool]) -> SessionState:
        """The first state for which ``condition`` holds; every state is looked at."""
        if condition(self.state):
            return self.state
        found: asyncio.Future[SessionState] = asyncio.get_running_loop().create_future()

        def look(state: SessionState) -> None:
            if not found.done() and condition(state):
                found.set_result(state)

        unsubscribe = self.subscribe(look)
        try:
            return await found
        finally:
            unsubscribe()
