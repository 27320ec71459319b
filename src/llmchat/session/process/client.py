"""The parent's end of the pipe: one engine process, its commands and its events."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from llmchat import protocol
from llmchat.errors import Cancelled, EngineDied, InternalError, LlmchatError
from llmchat.protocol import AnyCommand, AnyEvent, Event, Failed
from llmchat.session import paths
from llmchat.session.process import deaths
from llmchat.session.process.engine_log import EngineLog
from llmchat.session.process.engine_process import EngineProcess

EventHandler = Callable[[AnyEvent], None]
E = TypeVar("E", bound=Event)

_RESULTS = (
    protocol.Inspected,
    protocol.Converted,
    protocol.Calibrated,
    protocol.Loaded,
    protocol.Finished,
    Failed,
)
ENGINE = (sys.executable, "-P", "-m", "llmchat.engine")
"""``-P``: nothing of the folder in which llmchat was started is imported."""
_GARBAGE_LOGGED = 20
"""Lines that are no events: so many are written to the log, the rest only counted."""
_LOG_LINES = 30


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. An engine beats twice a second from a thread of its own, whatever it does."""

    hanging: float = 20.0
    """Without an event while a command runs: then it is said to hang."""
    kill: float = 60.0
    """Then it is killed."""
    importing: float = 180.0
    """Instead of ``kill`` while torch is imported, which may hold all its threads on a cold disk."""
    tick: float = 0.5
    leave: float = 2.0
    """To end by itself after its stdin was closed, and again after SIGTERM."""


PATIENCE = Patience()


class Running:
    """A command on its way; ``future`` gets its last event, or the error that came instead."""

    def __init__(self, client: EngineClient, id: int, on_event: EventHandler | None) -> None:
        self.id = id
        self.on_event = on_event
        self.future: asyncio.Future[AnyEvent | LlmchatError] = asyncio.get_running_loop().create_future()
        self._client = client

    def stop(self) -> None:
        self._client.stop(self.id)

    async def result(self, kind: type[E]) -> E:
        """The result event. Raises the LlmchatError of ``Failed``; cancelled, it stops the command."""
        try:
            event = await asyncio.shield(self.future)
        except asyncio.CancelledError:
            self.stop()
            raise
        if isinstance(event, LlmchatError):
            raise LlmchatError.from_problem(event.problem)
        if isinstance(event, Failed):
            raise LlmchatError.from_problem(event.problem)
        if not isinstance(event, kind):
            raise InternalError(
                "The engine answered wrongly", f"{type(event).__name__} instead of {kind.__name__}."
            )
        return event


class EngineClient:
    """One process from ``start`` to ``close``; a new engine is a new client."""

    def __init__(
        self,
        argv_extra: Sequence[str] = (),
        *,
        on_event: EventHandler | None = None,
        on_death: Callable[[EngineDied], None] | None = None,
        on_hang: Callable[[bool], None] | None = None,
        argv: Sequence[str] | None = None,
        patience: Patience = PATIENCE,
    ) -> None:
        """``on_event`` gets the events without an id; ``on_death`` the reason, unless ``close`` was called;
        ``on_hang`` True when no sign of life comes, False when it does again. ``argv``: another program."""
        self._argv = [*(argv or ENGINE), *argv_extra]
        self._on_event, self._on_death, self._on_hang = on_event, on_death, on_hang
        self._patience = patience
        self._running: dict[int, Running] = {}
        self._last_id = 0
        self._process: EngineProcess | None = None
        self._log: EngineLog | None = None
        self._reader: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._closer: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[protocol.Ready | LlmchatError] | None = None
        self._heard = 0.0
        self._hung_for: float | None = None
        self.death: LlmchatError | None = None
        """Why it is no longer there; None while it lives."""
        self.hanging = False
        self.garbage = 0
        """Lines that were no events."""
        self.stale = 0
        """Events of commands that had already ended."""

    # --- life ------------------------------------------------------------------------------------------------
    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        """Also False while it is being closed."""
        return self._process is not None and self.death is None and self._closer is None

    @property
    def ready(self) -> protocol.Ready | None:
        """What it said when torch was imported; None before."""
        if self._ready is None or not self._ready.done():
            return None
        said = self._ready.result()
        return said if isinstance(said, protocol.Ready) else None

    async def start(self) -> None:
        """Raises EngineDied when no process can be started."""
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        self._log = EngineLog(paths.log_dir())
        try:
            self._process = await EngineProcess.spawn(self._argv, self._log.fd)
        except BaseException as error:
            self._log.close()
            self.death = (
                error if isinstance(error, EngineDied) else Cancelled("Stopped", "The start was given up.")
            )
            raise
        self._heard = loop.time()
        self._reader = asyncio.create_task(self._read(), name="engine-reader")
        self._watcher = asyncio.create_task(self._watch(), name="engine-watcher")

    async def wait_ready(self) -> protocol.Ready:
        """Wait until torch is imported. Raises EngineDied."""
        if self._ready is None:
            raise InternalError("The engine was not started", "wait_ready before start.")
        said = await asyncio.shield(self._ready)
        if isinstance(said, LlmchatError):
            raise LlmchatError.from_problem(said.problem)
        return said

    async def close(self) -> None:
        """Close its stdin, wait, then terminate, then kill. No process is left, even when this is cancelled."""
        if self._closer is None:
            self._closer = asyncio.create_task(self._close(), name="engine-close")
        await asyncio.shield(self._closer)

    def kill(self) -> None:
        """A hanging engine, at once; its waiting commands get EngineDied."""
        if self._process and self.alive:
            self._hung_for = asyncio.get_running_loop().time() - self._heard
            self._process.kill()

    def remark(self, text: str) -> None:
        """Put ``text`` into the engine's log."""
        if self._log:
            self._log.write(text)

    def log_tail(self, lines: int = 200) -> str:
        return self._log.tail(lines) if self._log else ""

    # --- commands --------------------------------------------------------------------------------------------
    def submit(self, command: AnyCommand, on_event: EventHandler | None = None) -> Running:
        """Send a command; its id is given here. ``on_event`` gets every event of it, the last one included.
        Raises the reason of its death when the engine is gone."""
        if self.death is not None:
            raise LlmchatError.from_problem(self.death.problem)
        if self._closer is not None:
            raise Cancelled("Stopped", "The engine is being ended.")
        if self._process is None:
            raise InternalError("The engine was not started", f"{type(command).__name__} before start.")
        if not self._running:
            self._heard = max(self._heard, asyncio.get_running_loop().time())
        self._last_id += 1
        running = Running(self, self._last_id, on_event)
        self._running[running.id] = running
        self._process.write(protocol.encode(msgspec.structs.replace(command, id=running.id)))
        return running

    async def run(self, command: AnyCommand, result: type[E], on_event: EventHandler | None = None) -> E:
        """Send a command and wait for its result. Raises the LlmchatError it failed with, or EngineDied."""
        return await self.submit(command, on_event).result(result)

    def stop(self, id: int) -> None:
        """Ask it to stop a command; nothing happens when that has already ended."""
        if id in self._running and self.alive and self._process:
            self._process.write(protocol.encode(protocol.Stop(id=id)))

    # --- events ----------------------------------------------------------------------------------------------
    async def _read(self) -> None:
        assert self._process
        lines = 0
        while True:
            try:
                line = await self._process.output.readline()
            except ValueError:  # beyond MAX_LINE; the reader has dropped what it held
                self._count_garbage(b"(a line beyond the limit)")
                continue
            if not line:
                break
            self._receive(line)
            lines += 1
            if lines % 64 == 0:
                await asyncio.sleep(0)  # a flood must not starve the screen
        await self._ended()

    def _receive(self, line: bytes) -> None:
        self._heard = asyncio.get_running_loop().time()
        if self.hanging:
            self._say_hanging(False)
        try:
            event = protocol.decode_event(line)
        except msgspec.DecodeError:
            self._count_garbage(line)
            return
        id: int | None = getattr(event, "id", None)
        if id is None:
            if isinstance(event, protocol.Ready) and self._ready and not self._ready.done():
                self._ready.set_result(event)
            self._call(self._on_event, event)
        elif running := self._running.get(id):
            last = isinstance(event, _RESULTS)
            if last:
                del self._running[id]
            self._call(running.on_event, event)
            if last and not running.future.done():
                running.future.set_result(event)
        else:
            self.stale += 1

    def _call(self, handler: EventHandler | None, event: AnyEvent) -> None:
        """A handler that raises is a bug of ours; it must not deafen the client."""
        if handler is None:
            return
        try:
            handler(event)
        except Exception:
            if self._log:
                self._log.write(f"handling {type(event).__name__} failed:\n{traceback.format_exc()}")

    def _count_garbage(self, line: bytes) -> None:
        self.garbage += 1
        if self._log and self.garbage <= _GARBAGE_LOGGED:
            self._log.write(f"not an event: {line[:200]!r}")

    # --- the end ---------------------------------------------------------------------------------------------
    async def _ended(self) -> None:
        """Its output is at its end: see why, and tell everybody who waits."""
        assert self._process
        if not await self._process.exits_within(self._patience.leave):
            self._process.kill()  # it closed its output and stays
            await self._process.exits_within(self._patience.leave)
        self._process.kill()
        self.death = reason = self._reason()
        if self._watcher:
            self._watcher.cancel()
        running, self._running = self._running, {}
        for command in running.values():
            if not command.future.done():
                command.future.set_result(reason)
        if self._ready and not self._ready.done():
            self._ready.set_result(reason)
        if self._log:
            self._log.write(reason.message)
            self._log.close()
        if self._on_death and isinstance(reason, EngineDied):
            self._on_death(reason)

    def _reason(self) -> LlmchatError:
        log = self.log_tail(_LOG_LINES)
        if self._closer is not None:
            return Cancelled("Stopped", "The engine was ended.")
        if self._hung_for is not None:
            return deaths.hung(self._hung_for, log)
        return deaths.died(self._process.code if self._process else None, log)

    async def _close(self) -> None:
        if self._process is None or self._reader is None:
            return
        await self._process.end(self._patience.leave)
        await asyncio.wait([self._reader], timeout=self._patience.leave)
        if not self._reader.done():  # something outside the group holds the pipe open
            self._reader.cancel()
            await self._ended()

    # --- the watchdog ----------------------------------------------------------------------------------------
    async def _watch(self) -> None:
        assert self._process
        loop, patience = asyncio.get_running_loop(), self._patience
        last = loop.time()
        while True:
            await asyncio.sleep(patience.tick)
            now = loop.time()
            if now - last > patience.tick + 1:  # we slept ourselves (Ctrl+Z): its events lie unread
                self._heard = now
            last = now
            if self._log:
                self._log.limit()
            if self._process.code is not None:
                self._process.kill()  # gone, but a child of it keeps the pipe open
            elif self._running:
                self._judge(now - self._heard)

    def _judge(self, quiet: float) -> None:
        if quiet > (self._patience.kill if self.ready else self._patience.importing):
            self.kill()
        elif quiet > self._patience.hanging and not self.hanging:
            self._say_hanging(True)

    def _say_hanging(self, hanging: bool) -> None:
        self.hanging = hanging
        if self._log:
            self._log.write("no sign of life" if hanging else "alive again")
        if self._on_hang:
            self._on_hang(hanging)
