"""A ranking as text for people: model, machine, what fits, what does not, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmchat.commands import words
from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.domain.memory import CPU, DISK, cuda, gib
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan, Precision, Ranking, Refusal
from llmchat.domain.prequantized import stored_bytes
from llmchat.domain.words import amount, at, place


def describe(ranking: Ranking, facts: ModelFacts, hardware: HardwareProfile) -> str:
    lines = [
        f"{facts.id}: {facts.architecture}, {facts.parameters / 1e9:.2f} billion parameters, {_size(facts)}",
        *(f"  not known: {text}" for text in facts.unknown),
        *_machine(hardware),
        "",
    ]
    if ranking.plans:
        context = ranking.plans[0].context
        lines += [_plans(ranking, hardware), "", f"Predicted, for a context of {context:,} tokens; memory in GiB."]
    lines += [ranking.why]
    if ranking.best:
        lines += [f"  - {reason}" for reason in ranking.best.because]
    lines += ranking.enough
    refusals = [proposal for proposal in ranking.proposals if isinstance(proposal, Refusal)]
    if refusals:
        lines += [
            "",
            "Not possible:",
            words.table(["", "strategy", "weights", "why"], _refusals(refusals), left=4),
        ]
    return "\n".join(lines)


def _plans(ranking: Ranking, hardware: HardwareProfile) -> str:
    """``tok/s`` with a short context and with a full one."""
    devices = [cuda(gpu.index) for gpu in hardware.gpus]
    devices = [d for d in (*devices, CPU, DISK) if any(_held(plan, d) != "-" for plan in ranking.plans)]
    heads = ["", "plan", "tok/s", "full", "first s", *(place(device) for device in devices), "  why not"]
    rows = [_row(plan, ranking.best, devices) for plan in ranking.plans]
    return words.table(heads, rows, left=2)


def _row(plan: Plan, best: Plan | None, devices: Sequence[str]) -> list[str]:
    speeds = (plan.tokens_per_second, plan.full_tokens_per_second or plan.tokens_per_second)
    return [
        "*" if plan is best else "",
        plan.label,
        *(words.number(number) for number in (*speeds, plan.time_to_first_token)),
        *(_held(plan, device) for device in devices),
        "  best" if plan is best else f"  {plan.why_not.rstrip('.')}",
    ]


def _held(plan: Plan, device: str) -> str:
    count = plan.devices[device].engine if device in plan.devices else 0
    return f"{count / 2**30:.1f}" if count else "-"


def _refusals(refusals: Sequence[Refusal]) -> Iterator[list[str]]:
    """A strategy and a reason in a row, with the precisions for which it holds."""
    groups: dict[tuple[str, str], list[str]] = {}
    for refusal in refusals:
        groups.setdefault((refusal.strategy, _missing(refusal)), []).append(str(refusal.precision))
    for (strategy, reason), precisions in groups.items():
        yield ["", strategy, "any" if len(precisions) == len(Precision) else ", ".join(precisions), reason]


def _missing(refusal: Refusal) -> str:
    if refusal.device and refusal.missing:
        return f"{amount(refusal.missing)} short {at(refusal.device)}"
    return refusal.reason.rstrip(".")


def _size(facts: ModelFacts) -> str:
    """Of the weights, as published."""
    if facts.prequantized is None:
        return f"{gib(facts.weight_bytes)} as published ({facts.dtype})"
    stored = f"{gib(stored_bytes(facts))} as published ({facts.prequantized})"
    return f"{stored}, {gib(facts.weight_bytes)} expanded ({facts.dtype})"


def _machine(hardware: HardwareProfile) -> list[str]:
    ram = f"  RAM    {gib(hardware.ram_available)} of {gib(hardware.ram_total)} free"
    return [f"{hardware.name}:", *(map(_gpu, hardware.gpus) if hardware.gpus else ["  no GPU"]), ram]


def _gpu(gpu: Gpu) -> str:
    free = "unknown" if gpu.free is None else gib(gpu.free)
    return f"  GPU {gpu.index}  {gpu.name}, {free} of {gib(gpu.total)} free"
