"""Why the best plan is the best, in words."""

from __future__ import annotations

from collections.abc import Sequence

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.plan import Plan, Precision, Refusal, Request
from llmchat.domain.precision import ORDER
from llmchat.domain.words import KV_CACHES, PRECISIONS, speed


def why(
    best: Plan | None,
    plans: Sequence[Plan],
    refusals: Sequence[Refusal],
    request: Request,
    hardware: HardwareProfile,
) -> str:
    """One or two sentences. ``plans`` and ``refusals`` are in order, the best and the nearest miss first."""
    if best is None:
        return _nothing(plans, refusals, request, hardware)
    sentences = [_chosen(best, request)]
    higher = [p for p in ORDER[: ORDER.index(best.precision)] if request.precision is None]
    if higher:
        sentences.append(" ".join(_passed_over(p, plans, refusals, request) for p in higher))
    return " ".join(sentences)


def _chosen(best: Plan, request: Request) -> str:
    cache = f" and the KV cache {KV_CACHES[best.kv]}" if best.kv != "device" else ""
    head = f"{best.strategy} with the weights {PRECISIONS[best.precision]}{cache}: predicted {speed(best)}"
    if asked := _asked(request):
        return f"{head}. You asked for {asked}."
    match request.prefer:
        case "quality":
            return f"{head}, the fastest at the highest precision that fits."
        case "speed":
            return f"{head}, the fastest that fits."
        case "balanced" if best.pace >= request.comfortable:
            return f"{head}, the highest precision at a comfortable {request.comfortable:g} tokens/s or more."
        case "balanced":
            return f"{head}, the fastest: none that fits reaches a comfortable {request.comfortable:g} tokens/s."


def _passed_over(
    precision: Precision, plans: Sequence[Plan], refusals: Sequence[Refusal], request: Request
) -> str:
    """Why not this more precise one."""
    name = PRECISIONS[precision][0].upper() + PRECISIONS[precision][1:]
    mine = [p for p in plans if p.precision is precision and request.strategy in (None, p.strategy)]
    if mine:
        fastest = max(mine, key=lambda plan: plan.pace)
        return f"{name} it would be {fastest.strategy} at {speed(fastest)}."
    missed = [r for r in refusals if r.precision is precision and request.strategy in (None, r.strategy)]
    nearest = next((r for r in missed if r.device is not None), missed[0])
    return f"{name} nothing fits; the nearest is {nearest.strategy}: {_lower(nearest.reason)}"


def _nothing(
    plans: Sequence[Plan], refusals: Sequence[Refusal], request: Request, hardware: HardwareProfile
) -> str:
    """``refusals`` begins with what was asked for."""
    first = refusals[0]
    asked = _asked(request)
    head = f"You asked for {asked}, which does not work here" if asked else f"Nothing fits on {hardware.name}"
    by_memory = first.device is not None
    if by_memory and (request.strategy is None or request.precision is None):
        head += f"; the nearest is {first.strategy} with the weights {PRECISIONS[first.precision]}"
    text = f"{head}: {_lower(first.reason)}"
    return f"{text} {plans[0].label} would fit." if plans else text


def _asked(request: Request) -> str:
    """What the person set: ``ram-offload with the weights as published``; empty when nothing."""
    parts = [f"the weights {PRECISIONS[request.precision]}"] if request.precision else []
    parts += [f"the KV cache {KV_CACHES[request.kv]}"] if request.kv else []
    return " with ".join(text for text in (request.strategy or "", " and ".join(parts)) if text)


def _lower(sentence: str) -> str:
    """As the second half of a sentence: names such as CPU and GPU keep their capitals."""
    return sentence if sentence[:2].isupper() else sentence[0].lower() + sentence[1:]
