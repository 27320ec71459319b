"""One runner per mechanism that can execute a plan. A runner holds the model as planned and returns it."""

from __future__ import annotations

from collections.abc import Callable

from llmchat.domain.plan import Runner
from llmchat.engine.runners import managed, offloaded, resident
from llmchat.engine.runners.common import Job, Running

RUNNERS: dict[Runner, Callable[[Job], Running]] = {
    "resident": resident.run,
    "offloaded": offloaded.run,
    "managed": managed.run,
}

__all__ = ["RUNNERS", "Job", "Running"]
