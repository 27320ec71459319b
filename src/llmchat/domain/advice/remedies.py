"""What would help where a strategy was refused, each with its bytes and speed: a shorter context, another place
for the KV cache, a lower precision, another strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from llmchat.domain.placing.case import Case, Strategy
from llmchat.domain.plan import Plan, Proposal, Refusal
from llmchat.domain.precision import ORDER
from llmchat.domain.words import KV_CACHES, PRECISIONS, costs

SHORTEST_CONTEXT = 512
"""Tokens; a shorter context is not worth offering."""
STEP = 256
"""Tokens; contexts are offered in multiples of it."""


def with_context(strategy: Strategy, case: Case, proposal: Proposal) -> Proposal:
    """A refusal for want of memory with the longest shorter context that would fit, where there is one."""
    if isinstance(proposal, Plan) or proposal.device is None:
        return proposal
    if case.context <= SHORTEST_CONTEXT or not case.blocks.kv:
        return proposal
    best = _with(strategy, case, SHORTEST_CONTEXT)
    if best is None:
        return proposal
    low, high = SHORTEST_CONTEXT // STEP, -(-case.context // STEP)
    while high - low > 1:
        middle = (low + high) // 2
        plan = _with(strategy, case, middle * STEP)
        low, high, best = (middle, high, plan) if plan else (low, middle, best)
    return _added(proposal, f"Ask for a context of {best.context:,} tokens: that fits ({costs(best)}).")


def _with(strategy: Strategy, case: Case, context: int) -> Plan | None:
    answer = strategy.answer(replace(case, context=context))
    return answer if isinstance(answer, Plan) else None


def with_others(refusal: Refusal, plans: Sequence[Plan]) -> Refusal:
    """A refusal with the same strategy's KV cache elsewhere or its next lower precision, where that fits, and the
    best plan of another strategy. ``plans`` are in order, the best first. A refusal for another reason than memory
    stays as it is."""
    if refusal.device is None:
        return refusal
    mine = [plan for plan in plans if plan.strategy == refusal.strategy]
    texts = [
        f"Keep the KV cache {KV_CACHES[plan.kv]}: that fits ({costs(plan)})."
        for plan in mine
        if plan.precision is refusal.precision and plan.kv != refusal.kv
    ]
    lower = [p for p in mine if ORDER.index(p.precision) > ORDER.index(refusal.precision) and p.kv == refusal.kv]
    if lower:
        first = min(lower, key=lambda plan: ORDER.index(plan.precision))
        texts.append(f"Hold the weights {PRECISIONS[first.precision]}: that fits ({costs(first)}).")
    other = next((plan for plan in plans if plan.strategy != refusal.strategy), None)
    if other:
        texts.append(f"Use {other.label}: that fits ({costs(other)}).")
    return _added(refusal, *texts)


def _added(refusal: Refusal, *texts: str) -> Refusal:
    return msgspec.structs.replace(refusal, remedies=(*refusal.remedies, *texts))
