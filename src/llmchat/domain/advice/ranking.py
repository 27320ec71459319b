"""Which plan is better than which: the rule of ``--prefer``, and why a plan is not the best, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llmchat.domain.memory import CPU, DISK
from llmchat.domain.plan import Plan, Prefer, Proposal, Request, Runner
from llmchat.domain.precision import ORDER
from llmchat.domain.strategies import ALL, disk_offload
from llmchat.domain.words import speed

SIMPLICITY: dict[Runner, int] = {"resident": 0, "managed": 1, "offloaded": 2}
"""Of two equals the simpler mechanism."""
KV_ORDER = ("device", "ram", "8bit")
"""The simplest first; 8 bit is the only one that loses something."""
ABOUT = 0.9
"""Of a speed, what counts as about as fast."""
Key = tuple[float, ...]
"""Smaller is better."""


def asked_for(proposal: Proposal, request: Request) -> bool:
    """Whether it keeps to what the person set of strategy, precision and KV cache. A cache that was asked for in
    RAM is with its layers only where they are in RAM, too."""
    return (
        request.strategy in (None, proposal.strategy)
        and request.precision in (None, proposal.precision)
        and (request.kv in (None, proposal.kv) or (request.kv, proposal.kv) == ("ram", "device"))
    )


def ordered(plans: Sequence[Plan], request: Request) -> list[Plan]:
    """The best first."""
    rule = _RULES[request.prefer]

    def key(plan: Plan) -> Key:
        first = (not asked_for(plan, request), needless(plan, plans))
        return (*first, *rule(plan, request), *_simplicity(plan))

    return sorted(plans, key=key)


def needless(plan: Plan, plans: Sequence[Plan]) -> bool:
    """Whether an offloading or managed plan does not do what its name says, and one without its mechanism is about
    as fast: a resident one where nothing is moved, ram-offload where disk-offload has nothing on disk."""
    away = set(plan.placement.values()) & ({CPU, DISK} - {plan.main_device})
    spilled = plan.runner == "managed" and plan.devices[CPU].weights > 0
    if plan.runner == "resident" or spilled or (away and not _disk_unused(plan)):
        return False
    return any(
        (other.runner == "resident" or (away and other.strategy != plan.strategy))
        and (other.precision, other.kv) == (plan.precision, plan.kv)
        and other.pace >= ABOUT * plan.pace
        for other in plans
    )


def why_not(plan: Plan, best: Plan, plans: Sequence[Plan], request: Request) -> str:
    """Why ``plan`` is not the best, in one sentence."""
    if not asked_for(plan, request):
        return "You asked for something else."
    if needless(plan, plans):
        if _disk_unused(plan) and CPU in plan.placement.values() and plan.main_device != CPU:
            return "Nothing would lie on disk: ram-offload does the same."
        return "It would move nothing: a simpler strategy does the same."
    mine, theirs = plan.pace, best.pace
    comfortable = request.comfortable
    balanced = request.prefer == "balanced"
    if balanced and theirs >= comfortable and mine < comfortable:
        return f"Slow: {speed(plan)}, below the comfortable {comfortable:g}."
    if request.prefer != "speed" and (theirs >= comfortable or not balanced) and _quality(plan) > _quality(best):
        return f"Less precise than {best.label}" + (", which is fast enough." if balanced else ".")
    if balanced and (plan.main_device == CPU) > (best.main_device == CPU) and mine >= comfortable:
        first = f"{plan.time_to_first_token:.2g} s instead of {best.time_to_first_token:.2g} s"
        return f"The CPU reads a prompt of 512 tokens in {first}."
    if _rounded(mine) < _rounded(theirs):
        return f"Slower: {speed(plan)} instead of {speed(best)}."
    if _quality(plan) > _quality(best):
        return f"No faster than {best.label}, and less precise."
    return f"No faster than {best.label}, and not as simple."


def _quality(plan: Plan) -> Key:
    return (ORDER.index(plan.precision), plan.kv == "8bit")


def _disk_unused(plan: Plan) -> bool:
    return plan.strategy == disk_offload.NAME and DISK not in plan.placement.values()


def _balanced(plan: Plan, request: Request) -> Key:
    """The most precise of those that answer at a comfortable speed, a GPU before the CPU, for it reads a prompt
    many times faster; without any, the fastest."""
    if plan.pace >= request.comfortable:
        return (0, *_quality(plan), plan.main_device == CPU, -_rounded(plan.pace))
    return (1, -_rounded(plan.pace), *_quality(plan))


def _most_precise(plan: Plan, request: Request) -> Key:
    return (*_quality(plan), -_rounded(plan.pace))


def _fastest(plan: Plan, request: Request) -> Key:
    return (-_rounded(plan.pace), *_quality(plan))


_RULES: dict[Prefer, Callable[[Plan, Request], Key]] = {
    "balanced": _balanced,
    "quality": _most_precise,
    "speed": _fastest,
}


def _rounded(tokens_per_second: float) -> float:
    """To two digits: predictions are not better than that, and equals go to the simpler plan."""
    return float(f"{tokens_per_second:.2g}")


def _simplicity(plan: Plan) -> Key:
    holding = sum(account.weights > 0 for account in plan.devices.values())
    names = [strategy.name for strategy in ALL]
    return (KV_ORDER.index(plan.kv), holding, SIMPLICITY[plan.runner], names.index(plan.strategy))
