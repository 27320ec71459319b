"""Every weight lies where it is used: one GPU, several, or the RAM of a machine that computes on its CPU."""

from __future__ import annotations

from llmchat.domain.memory import CPU
from llmchat.engine.runners.common import Job, Running, device_map, load, offloads
from llmchat.errors import InternalError


def run(job: Job) -> Running:
    """Raises InternalError for a plan with weights away from their device."""
    devices = set(job.plan.placement.values())
    if offloads(job.plan) or (CPU in devices and len(devices) > 1):
        raise InternalError(
            "Plan does not fit its runner",
            f"The resident runner cannot hold weights on {', '.join(sorted(devices))} together.",
            "Choose another strategy (F4).",
        )
    return Running(load(job, device_map(job.plan.placement)))
