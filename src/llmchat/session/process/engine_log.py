"""The engine's stderr: one private file per engine process, the newest few kept."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from pathlib import Path

KEEP = 5
"""Log files."""
MAX_BYTES = 32 * 2**20
"""Of one file; a library that floods stderr must not fill the disk."""
TAIL_BYTES = 64 * 1024
"""Read from the end of a log for a person."""

_numbers = itertools.count(1)


class EngineLog:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        self.path = folder / f"engine-{stamp}-{os.getpid()}-{next(_numbers):03d}.log"
        self.fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for old in sorted(folder.glob("engine-*.log"))[:-KEEP]:
            old.unlink(missing_ok=True)

    def write(self, line: str) -> None:
        """A remark of the parent's among the engine's lines. A full disk is no reason to fail."""
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                os.write(self.fd, f"[llmchat] {line}\n".encode("utf-8", "replace"))

    def limit(self) -> None:
        """Empty the file once it is too large (both sides append, so truncating is safe)."""
        with contextlib.suppress(OSError):
            if self.fd >= 0 and os.fstat(self.fd).st_size > MAX_BYTES:
                os.ftruncate(self.fd, 0)
                self.write(f"older lines were dropped: more than {MAX_BYTES // 2**20} MiB")

    def tail(self, lines: int) -> str:
        """The last lines; empty when nothing can be read."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
