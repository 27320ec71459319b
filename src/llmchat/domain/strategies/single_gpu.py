"""All on one GPU: the fastest and simplest, where it fits."""

from __future__ import annotations

from llmchat.domain.memory import CPU, GIB
from llmchat.domain.plan import Plan, Proposal
from llmchat.domain.strategies import checks, outcome
from llmchat.domain.strategies.base import Case, Strategy
from llmchat.domain.strategies.rooms import Room
from llmchat.domain.words import at

NAME = "single-gpu"


def propose(case: Case) -> Proposal:
    """On the GPU that answers fastest of those with room; on the one with most room of equals."""
    if refusal := checks.no_gpu(case, NAME) or checks.not_quantizable(case, NAME):
        return refusal
    if case.ram < 0:
        return outcome.short(case, NAME, CPU, -case.ram)
    need = case.blocks.size
    fitting = [room for room in case.gpus if room.room >= need]
    if fitting:
        plans = [(_plan(case, room), room) for room in fitting]
        best, _ = max(plans, key=lambda pair: (pair[0].tokens_per_second, pair[1].room, -pair[1].gpu.index))
        return best
    nearest = max(case.gpus, key=lambda room: (room.room, -room.gpu.index))
    total = need + nearest.reserve
    return outcome.short(
        case, NAME, nearest.device, need - nearest.room, f"A GPU with {-(-total // GIB)} GiB free would hold it."
    )


def _plan(case: Case, room: Room) -> Plan:
    return outcome.plan(
        case,
        NAME,
        "resident",
        ((block, room.device) for block in case.blocks.all),
        room.device,
        {room.device: room.reserve},
        (f"all {len(case.model.layers)} layers and their KV cache fit {at(room.device)}",),
    )


STRATEGY = Strategy(NAME, "all on one GPU", propose)
