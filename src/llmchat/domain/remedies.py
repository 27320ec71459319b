"""What would help where a strategy was refused: a shorter context, a lower precision, another strategy."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from llmchat.domain.memory import gib
from llmchat.domain.plan import Plan, Proposal, Refusal
from llmchat.domain.precision import ORDER
from llmchat.domain.strategies.base import Case, Strategy
from llmchat.domain.words import PRECISIONS, at

SHORTEST_CONTEXT = 512
"""Tokens; a shorter context is not worth offering."""
STEP = 256
"""Tokens; contexts are offered in multiples of it."""


def with_context(strategy: Strategy, case: Case, proposal: Proposal) -> Proposal:
    """A refusal for want of memory with the longest shorter context that would fit, where there is one."""
    if isinstance(proposal, Plan) or proposal.device is None:
        return proposal
    if case.context <= SHORTEST_CONTEXT or not case.blocks.kv or not _fits(strategy, case, SHORTEST_CONTEXT):
        return proposal
    low, high = SHORTEST_CONTEXT // STEP, -(-case.context // STEP)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(strategy, case, middle * STEP) else (low, middle)
    return _added(proposal, f"Ask for a context of {low * STEP:,} tokens: that fits.")


def _fits(strategy: Strategy, case: Case, context: int) -> bool:
    shorter = Case(case.model, case.hardware, case.request, case.precision, context)
    return isinstance(strategy.answer(shorter), Plan)


def with_others(refusal: Refusal, plans: Sequence[Plan]) -> Refusal:
    """A refusal with the same strategy's next lower precision that fits, and the best plan of another strategy.
    ``plans`` are in order, the best first. A refusal for another reason than memory stays as it is."""
    if refusal.device is None:
        return refusal
    lower = [
        plan
        for plan in plans
        if plan.strategy == refusal.strategy and ORDER.index(plan.precision) > ORDER.index(refusal.precision)
    ]
    texts = []
    if lower:
        first = min(lower, key=lambda plan: ORDER.index(plan.precision))
        texts.append(f"Hold the weights {PRECISIONS[first.precision]}: that fits ({_speed(first)}).")
    other = next((plan for plan in plans if plan.strategy != refusal.strategy), None)
    if other:
        held = ", ".join(f"{gib(a.engine)} {at(d)}" for d, a in other.devices.items() if a.weights)
        texts.append(f"Use {other.label}: that fits ({_speed(other)}; {held}).")
    return _added(refusal, *texts)


def _speed(plan: Plan) -> str:
    return f"predicted {plan.tokens_per_second:.2g} tokens/s"


def _added(refusal: Refusal, *texts: str) -> Refusal:
    return msgspec.structs.replace(refusal, remedies=(*refusal.remedies, *texts))
