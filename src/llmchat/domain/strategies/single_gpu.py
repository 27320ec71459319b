"""All on one GPU: the fastest and simplest, where it fits."""

from __future__ import annotations

from llmchat.domain.memory import CPU, GIB
from llmchat.domain.placing import checks, outcome
from llmchat.domain.placing.case import Case, Strategy
from llmchat.domain.placing.reserve import CUDA_CONTEXT
from llmchat.domain.placing.rooms import Room
from llmchat.domain.plan import Plan, Proposal
from llmchat.domain.words import at

NAME = "single-gpu"


def propose(case: Case) -> Proposal:
    """Of the GPUs with room on the preferred one, else on the one that answers fastest, of equals the roomiest."""
    if refusal := checks.no_gpu(case, NAME) or checks.not_quantizable(case, NAME):
        return refusal
    if case.ram < 0:
        return outcome.short(case, NAME, CPU, -case.ram)
    need = case.blocks.space
    fitting = [room for room in case.gpus if room.space.holds(need)]
    if fitting:
        plans = [(_plan(case, room), room) for room in fitting]
        best, _ = max(plans, key=lambda pair: _rank(*pair))
        return best
    nearest = min(case.gpus, key=lambda room: (room.space.lacks(need), room.gpu.index))
    words = f"A GPU with {-(-enough(case) // GIB)} GiB free would hold it."
    return outcome.short(case, NAME, nearest.device, nearest.space.lacks(need), words)


def enough(case: Case) -> int:
    """Free bytes of a GPU that holds it all."""
    return max(case.blocks.space.plus(case.beside)) + CUDA_CONTEXT


def _rank(plan: Plan, room: Room) -> tuple[float, ...]:
    return (-room.preference, plan.pace, room.space.running, -room.gpu.index)


def _plan(case: Case, room: Room) -> Plan:
    return outcome.plan(
        case,
        NAME,
        "resident",
        ((block, room.device) for block in case.blocks.all),
        room.device,
        [room],
        (f"all {len(case.model.layers)} layers and their KV cache fit {at(room.device)}",),
    )


STRATEGY = Strategy(NAME, "all on one GPU", propose)
