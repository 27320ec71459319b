"""The engine as an operating-system process: started with pipes, ended without remains."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence

from llmchat import protocol
from llmchat.errors import EngineDied
from llmchat.session.process import deaths

_SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "HUGGINGFACE_TOKEN")


class EngineProcess:
    """Leads a process group of its own: the terminal's Ctrl+C does not reach it, and whatever it starts ends
    with it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def spawn(cls, argv: Sequence[str], stderr: int) -> EngineProcess:
        """``stderr``: a file descriptor. Raises EngineDied when no process can be started."""
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                limit=protocol.MAX_LINE,
                env=engine_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise EngineDied("The engine cannot be started", f"{error}.", deaths.RELOAD) from error
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    @property
    def output(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None
        return self._process.stdout

    def write(self, line: bytes) -> None:
        """Without waiting: commands are few, and an engine that no longer reads must not stop the parent."""
        stdin = self._process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(line)

    async def exits_within(self, seconds: float) -> bool:
        """By the exit code: ``Process.wait`` also waits for pipes that a grandchild may hold open."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds
        pause = 0.002
        while self.code is None:
            if clock() > deadline:
                return False
            await asyncio.sleep(pause)
            pause = min(0.05, pause * 2)
        return True

    async def end(self, patience: float) -> None:
        """Close its stdin, which ends a healthy engine; then SIGTERM, then SIGKILL, ``patience`` s apart."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await self.exits_within(patience):
                break
            self.signal(number)
        await self.exits_within(patience)
        self.kill()

    def kill(self) -> None:
        """It and all it started, also when it has ended itself."""
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self.pid, number)
            elif self.code is None:
                self._process.kill()


def engine_environment() -> dict[str, str]:
    """Our environment without what the engine need not know: it reads local files only, so no token."""
    environment = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    return environment | {
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8:backslashreplace",
    }
