"""The engine in use: one client at a time, replaced as a whole; what it says about itself goes into the state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from llmchat import protocol
from llmchat.errors import Cancelled, EngineDied, LlmchatError
from llmchat.protocol import AnyCommand, AnyEvent, Event, Held
from llmchat.session.process.client import EngineClient, EventHandler, Running
from llmchat.session.store import Store

E = TypeVar("E", bound=Event)


class EngineHost:
    def __init__(
        self, store: Store, argv_extra: Sequence[str] = (), on_death: Callable[[EngineDied], None] | None = None
    ) -> None:
        self._store = store
        self._argv_extra = argv_extra
        self._on_death = on_death
        self._client: EngineClient | None = None
        self._changing = asyncio.Lock()
        self._closed = False
        self._ready: protocol.Ready | None = None
        self.held: Mapping[str, Held] = {}
        """What the engine says it holds, by device."""
        self.used = False
        """A model was loaded into this process, or tried: it must be replaced before the next one."""

    @property
    def alive(self) -> bool:
        return self._client is not None and self._client.alive

    @property
    def hanging(self) -> bool:
        return self._client is not None and self._client.hanging

    @property
    def pid(self) -> int | None:
        return self._client.pid if self._client and self._client.alive else None

    @property
    def ready(self) -> protocol.Ready | None:
        """What this engine, or the one before it, said about its libraries and GPUs; None before the first."""
        return self._ready

    async def ensure(self) -> EngineClient:
        """The living client, started if there is none. Raises EngineDied; Cancelled after ``close``."""
        async with self._changing:
            if self._closed:
                raise Cancelled("Stopped", "llmchat is closing.")
            if self._client is None or not self._client.alive:
                await self._end()
                await self._start()
            assert self._client
            return self._client

    async def renew(self) -> None:
        """End this process, which gives all its memory back, and start a fresh one."""
        async with self._changing:
            await self._end()
            if not self._closed:
                await self._start()

    async def close(self) -> None:
        """End it for good."""
        self._closed = True
        async with self._changing:
            await self._end()

    async def wait_ready(self) -> protocol.Ready:
        return await (await self.ensure()).wait_ready()

    async def submit(self, command: AnyCommand, on_event: EventHandler | None = None) -> Running:
        return (await self.ensure()).submit(command, on_event)

    async def run(self, command: AnyCommand, result: type[E], on_event: EventHandler | None = None) -> E:
        """The result of a command. Raises the LlmchatError it failed with."""
        return await (await self.submit(command, on_event)).result(result)

    def kill(self) -> None:
        """A hanging engine."""
        if self._client:
            self._client.kill()

    def log(self, text: str) -> None:
        """A remark of ours among the engine's own lines."""
        if self._client:
            self._client.remark(text)

    def log_tail(self, lines: int) -> str:
        return self._client.log_tail(lines) if self._client else ""

    async def _start(self) -> None:
        self.used, self.held = False, {}
        client = EngineClient(
            self._argv_extra,
            on_event=lambda event: self._heard(client, event),
            on_death=lambda error: self._died(client, error),
            on_hang=lambda hanging: self._store.update(hanging=hanging),
        )
        self._client = client
        self._store.update(engine="starting", hanging=False)
        try:
            await client.start()
        except LlmchatError:
            self._store.update(engine="down")
            raise

    async def _end(self) -> None:
        if self._client:
            await self._client.close()
            self.held = {}
            self._store.update(engine="down", hanging=False)

    def _heard(self, client: EngineClient, event: AnyEvent) -> None:
        if client is not self._client:
            return
        match event:
            case protocol.Hello():
                self._store.update(engine="up")
            case protocol.Ready(warnings=warnings):
                self._ready = event
                self._store.update(engine="ready")
                said = {notice.text for notice in self._store.state.notices}
                for warning in warnings:
                    if warning not in said:
                        self._store.notice(warning, "warning")
            case protocol.Heartbeat(held=held):
                self.held = held

    def _died(self, client: EngineClient, error: EngineDied) -> None:
        if client is not self._client:
            return
        self.used, self.held = False, {}
        self._store.update(engine="down", hanging=False)
        if self._on_death:
            self._on_death(error)
