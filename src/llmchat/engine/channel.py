"""The engine's end of the pipe: commands in, events out, one JSON line each.

The reader thread does two things at once that the worker cannot: it flags the running task when a Stop comes, and
it ends the process when the parent is gone, whatever the worker is doing then.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

from llmchat.engine.task import Task
from llmchat.protocol import AnyCommand, AnyEvent, Stop, decode_command, encode

PR_SET_PDEATHSIG = 1
"""From ``linux/prctl.h``."""


def claim_stdout() -> BinaryIO:
    """Take fd 1 for the protocol and point it at stderr: whatever a library prints then goes to the log."""
    protocol = os.dup(1)
    os.set_inheritable(protocol, False)
    sys.stdout.flush()
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return os.fdopen(protocol, "wb", buffering=0)


def die_with_parent() -> None:
    """On Linux have the kernel kill this process when the thread that spawned it ends; elsewhere EOF has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _exit() -> None:
    sys.stderr.flush()
    os._exit(0)


class Channel:
    """``send`` may be called from any thread; ``commands`` is iterated by the worker alone."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO, on_close: Callable[[], None] = _exit) -> None:
        """``on_close`` is called once the parent cannot be heard or reached; by default the process ends."""
        self._reader, self._writer, self._on_close = reader, writer, on_close
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[AnyCommand | None] = queue.SimpleQueue()
        self._tasks: dict[int, Task] = {}
        threading.Thread(target=self._read, name="reader", daemon=True).start()

    @classmethod
    def over_stdio(cls) -> Channel:
        """The channel of an engine process: commands on fd 0, events on what was fd 1."""
        return cls(sys.stdin.buffer, claim_stdout())

    def send(self, event: AnyEvent) -> None:
        line = memoryview(encode(event))
        try:
            with self._lock:
                while line:
                    line = line[self._writer.write(line) :]
        except (OSError, ValueError):
            self._on_close()

    def commands(self) -> Iterator[AnyCommand]:
        """Every command but Stop, in order. A command's task ends when the next one is asked for."""
        while (command := self._queue.get()) is not None:
            yield command
            self._tasks.pop(command.id, None)

    def task(self, command: AnyCommand) -> Task:
        """The task of a command that ``commands`` gave; already cancelled if its Stop came before its turn."""
        return self._tasks[command.id]

    def _read(self) -> None:
        try:
            for line in self._reader:
                self._take(line)
        except (OSError, ValueError) as error:
            print(f"llmchat engine: cannot read commands: {error}", file=sys.stderr)  # noqa: T201
        for task in list(self._tasks.values()):
            task.cancel()
        self._queue.put(None)
        self._on_close()

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            command = decode_command(line)
        except msgspec.DecodeError as error:
            print(f"llmchat engine: not a command: {error}: {line[:200]!r}", file=sys.stderr)  # noqa: T201
            return
        if isinstance(command, Stop):
            if task := self._tasks.get(command.id):
                task.cancel()
            return
        self._tasks[command.id] = Task(command.id, self.send)
        self._queue.put(command)
