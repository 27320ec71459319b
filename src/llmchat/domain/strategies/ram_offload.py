"""As many layers on the GPUs as fit; the rest in RAM, copied to the main GPU each time their turn comes."""

from __future__ import annotations

from llmchat.domain.memory import CPU, gib
from llmchat.domain.placing import checks, offload, outcome
from llmchat.domain.placing.case import Case, Strategy
from llmchat.domain.plan import Plan, Proposal, Refusal
from llmchat.domain.words import place

NAME = "ram-offload"


def propose(case: Case) -> Proposal:
    if refusal := checks.no_gpu(case, NAME) or _one_pool(case) or checks.not_offloadable(case, NAME):
        return refusal
    found = case.split
    if isinstance(found, offload.Shortfall):
        return outcome.short(case, NAME, found.room.device, found.missing)
    moved = sum(block.weights for block in found.offloaded)
    if moved > case.ram:
        return outcome.short(case, NAME, CPU, moved - case.ram)
    return _plan(case, found, moved)


def _one_pool(case: Case) -> Refusal | None:
    if any(room.gpu.managed == "integrated" for room in case.gpus):
        return checks.refused(case, NAME, "CPU and GPU share one memory: moving layers to RAM frees nothing.")
    return None


def _plan(case: Case, found: offload.Split, moved: int) -> Plan:
    total = len(case.blocks.layers)
    away = sum(block in case.blocks.layers for block in found.offloaded)
    because = (
        f"{away} of {total} layers in RAM: {gib(moved)} are copied to {place(found.main.device)} for every token"
        if found.offloaded
        else "everything fits on the GPUs: nothing lies in RAM, and nothing is moved"
    )
    return outcome.plan(
        case,
        NAME,
        "offloaded",
        (*((block, room.device) for block, room in found.kept), *((block, CPU) for block in found.offloaded)),
        found.main.device,
        found.rooms,
        (because,),
        beside={found.main.device: found.staging},
    )


STRATEGY = Strategy(NAME, "as many layers on the GPUs as fit, the rest in RAM", propose)
