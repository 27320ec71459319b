"""Work in a forked child: what it takes of the GPUs, a context of some 0.5 GB on each, ends with it."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from llmchat.engine.channel import die_with_parent

T = TypeVar("T")


def possible() -> bool:
    """Where the system can fork. The process must not have used CUDA: its children could not."""
    return hasattr(os, "fork")


class Forked(Generic[T]):
    """Runs ``work`` in a child from now on; ``result`` waits for what it returned (as JSON of type ``kind``)."""

    def __init__(self, work: Callable[[], T], kind: type[T]) -> None:
        self._kind = kind
        sys.stderr.flush()
        self._pipe, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _child(work, writing)
        os.close(writing)

    def result(self, timeout: float) -> T | None:
        """None when it raised (its traceback is on stderr), was killed, or took more than ``timeout`` seconds."""
        answer = b""
        end = time.monotonic() + timeout
        while select.select([self._pipe], [], [], max(0.0, end - time.monotonic()))[0]:
            if not (part := os.read(self._pipe, 65536)):
                break
            answer += part
        else:
            os.kill(self._pid, signal.SIGKILL)
        os.close(self._pipe)
        os.waitpid(self._pid, 0)
        try:
            return msgspec.json.decode(answer, type=self._kind)
        except msgspec.DecodeError:
            return None


def _child(work: Callable[[], object], writing: int) -> None:
    """Never returns."""
    try:
        die_with_parent()
        os.write(writing, msgspec.json.encode(work()))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)
