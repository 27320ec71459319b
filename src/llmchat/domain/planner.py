"""Ask every strategy at every precision, put the answers in order, and say why the best is the best."""

from __future__ import annotations

from collections.abc import Callable

from llmchat.domain import reasons, remedies
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import CPU, DISK, cuda
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan, Prefer, Proposal, Ranking, Refusal, Request, Runner
from llmchat.domain.precision import ORDER
from llmchat.domain.strategies import ALL, disk_offload
from llmchat.domain.strategies.base import Case
from llmchat.domain.words import place
from llmchat.errors import UsageError

DEFAULT_CONTEXT = 8192
"""Tokens, where the person sets none and the model does not end earlier."""
SIMPLICITY: dict[Runner, int] = {"resident": 0, "managed": 1, "offloaded": 2}
"""Of two equals the simpler mechanism."""
ABOUT = 0.9
"""Of a speed, what counts as about as fast."""
Key = tuple[float, ...]
"""Smaller is better."""


def rank(model: ModelFacts, hardware: HardwareProfile, request: Request) -> Ranking:
    """Every strategy times every precision, best first. Pure: the same arguments give the same ranking.

    Raises UsageError for an unknown strategy, a context that the model does not have, and a budget for a GPU that
    is not there.
    """
    _check(model, hardware, request)
    context = request.context or min(DEFAULT_CONTEXT, model.max_context or DEFAULT_CONTEXT)
    proposals = []
    for precision in ORDER:
        case = Case(model, hardware, request, precision, context)
        proposals += [remedies.with_context(strategy, case, strategy.answer(case)) for strategy in ALL]
    plans = _sorted([p for p in proposals if isinstance(p, Plan)], request)
    best = next((plan for plan in plans if asked_for(plan, request)), None)
    refusals = sorted((p for p in proposals if isinstance(p, Refusal)), key=_nearest(request))
    helped = tuple(remedies.with_others(refusal, plans) for refusal in refusals)
    return Ranking(
        proposals=(*plans, *helped), best=best, why=reasons.why(best, tuple(plans), helped, request, hardware)
    )


def asked_for(proposal: Proposal, request: Request) -> bool:
    """Whether it keeps to the strategy and precision that the person set."""
    return request.strategy in (None, proposal.strategy) and request.precision in (None, proposal.precision)


def _sorted(plans: list[Plan], request: Request) -> list[Plan]:
    rule = _RULES[request.prefer]

    def key(plan: Plan) -> Key:
        first = (not asked_for(plan, request), _needless(plan, plans))
        return (*first, *rule(plan, request), *_simplicity(plan))

    return sorted(plans, key=key)


def _needless(plan: Plan, plans: list[Plan]) -> bool:
    """Whether an offloading or managed plan does not do what its name says, and one without its mechanism is about
    as fast: a resident one where nothing is moved, ram-offload where disk-offload has nothing on disk."""
    away = set(plan.placement.values()) & ({CPU, DISK} - {plan.main_device})
    spilled = plan.runner == "managed" and plan.devices[CPU].weights > 0
    if plan.runner == "resident" or spilled or (away and not _disk_unused(plan)):
        return False
    return any(
        (other.runner == "resident" or (away and other.strategy != plan.strategy))
        and other.precision is plan.precision
        and other.tokens_per_second >= ABOUT * plan.tokens_per_second
        for other in plans
    )


def _disk_unused(plan: Plan) -> bool:
    return plan.strategy == disk_offload.NAME and DISK not in plan.placement.values()


def _balanced(plan: Plan, request: Request) -> Key:
    """The most precise of those that answer at a comfortable speed; without any, the fastest."""
    if plan.tokens_per_second >= request.comfortable:
        return (0, ORDER.index(plan.precision), -_rounded(plan.tokens_per_second))
    return (1, -_rounded(plan.tokens_per_second), ORDER.index(plan.precision))


def _quality(plan: Plan, request: Request) -> Key:
    return (ORDER.index(plan.precision), -_rounded(plan.tokens_per_second))


def _speed(plan: Plan, request: Request) -> Key:
    return (-_rounded(plan.tokens_per_second), ORDER.index(plan.precision))


_RULES: dict[Prefer, Callable[[Plan, Request], Key]] = {
    "balanced": _balanced,
    "quality": _quality,
    "speed": _speed,
}


def _rounded(tokens_per_second: float) -> float:
    """To two digits: predictions are not better than that, and equals go to the simpler plan."""
    return float(f"{tokens_per_second:.2g}")


def _simplicity(plan: Plan) -> Key:
    holding = sum(account.weights > 0 for account in plan.devices.values())
    names = [strategy.name for strategy in ALL]
    return (holding, SIMPLICITY[plan.runner], names.index(plan.strategy))


def _nearest(request: Request) -> Callable[[Refusal], Key]:
    """What was asked for first, then by bytes missing; what no memory can lift comes last."""

    def key(refusal: Refusal) -> Key:
        return (not asked_for(refusal, request), refusal.device is None, refusal.missing)

    return key


def _check(model: ModelFacts, hardware: HardwareProfile, request: Request) -> None:
    names = [strategy.name for strategy in ALL]
    if request.strategy is not None and request.strategy not in names:
        raise UsageError(
            "Unknown strategy",
            f"There is no strategy {request.strategy!r}.",
            f"Choose one of: {', '.join(names)}.",
        )
    if request.context is not None and request.context < 1:
        raise UsageError("Context too short", f"A context of {request.context} tokens holds nothing.")
    if request.context is not None and model.max_context is not None and request.context > model.max_context:
        raise UsageError(
            "Context too long",
            f"{request.context:,} tokens were asked for; {model.id} was made for {model.max_context:,}.",
            f"Ask for {model.max_context} tokens or fewer.",
        )
    there = {gpu.index for gpu in hardware.gpus}
    for index in request.gpu_budget:
        if index not in there:
            devices = [place(cuda(number)) for number in sorted(there)] or ["no GPU"]
            raise UsageError(
                "No such GPU",
                f"A budget was set for GPU {index}; this machine has {', '.join(devices)}.",
                "Set budgets for GPUs that are there.",
            )
