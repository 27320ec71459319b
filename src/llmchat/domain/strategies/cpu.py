"""All in RAM, run on the CPU: works everywhere, and is limited by what RAM reads in a second."""

from __future__ import annotations

from llmchat.domain.memory import CPU
from llmchat.domain.placing import checks, outcome
from llmchat.domain.placing.case import Case, Strategy
from llmchat.domain.plan import Proposal

NAME = "cpu"


def propose(case: Case) -> Proposal:
    if refusal := checks.not_quantizable(case, NAME):
        return refusal
    need = case.blocks.size + case.transient
    if need > case.ram:
        return outcome.short(case, NAME, CPU, need - case.ram)
    return outcome.plan(
        case,
        NAME,
        "resident",
        ((block, CPU) for block in case.blocks.all),
        CPU,
        (),
        (f"all {len(case.model.layers)} layers and their KV cache fit in RAM",),
        beside={CPU: case.transient},
    )


STRATEGY = Strategy(NAME, "all in RAM, run on the CPU", propose)
