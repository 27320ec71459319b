"""What earlier runs of a model on a machine gave, and what the planner learns from it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

import msgspec

from llmchat.domain.memory import CPU, DISK, Account
from llmchat.domain.plan import Kv, Plan, Precision

GAP = 0.05
"""Share of the planned bytes by which measured ones may be more before it is told, and planned for."""
SMALL = 64 * 2**20
"""Bytes that are not worth a word."""
KEPT = 5
"""Latest runs of which the median counts: one run is noise."""


IN_RAM = {"disk-offload": ("cpu",)}
"""Strategy to others that hold in RAM what it would if nothing had to lie elsewhere."""


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to hold a model, as it was planned and as it turned out."""

    strategy: str
    precision: Precision
    kv: Kv = "device"
    formula: float
    """Tokens/s by arithmetic."""
    tokens_per_second: float | None = None
    """Measured; None before a reply was long enough to tell."""
    extra: dict[str, int] = {}
    """Device to bytes that it held beyond the plan."""
    time: float = 0.0
    """Unix seconds."""


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs of one way to hold the model say about the next."""

    runs: int = 0
    speed: float = 1.0
    """By which to multiply the arithmetic's tokens/s."""
    gpu: int = 0
    """Bytes to keep free on each GPU beyond the plan's own count."""
    ram: int = 0


NOTHING = Lesson()


def lesson(runs: Iterable[Run], strategy: str, precision: Precision, kv: Kv) -> Lesson:
    """Speed from the latest runs of just this way. Bytes beyond the plan from all runs with these weights and this
    KV cache: what a GPU took under one strategy it takes under another, and what the CPU took it takes for
    ``disk-offload``, too. NOTHING where there are none."""
    runs = tuple(runs)
    mine = sorted(
        (run for run in runs if (run.strategy, run.precision, run.kv) == (strategy, precision, kv)),
        key=lambda run: run.time,
    )[-KEPT:]
    related = [run for run in runs if (run.precision, run.kv) == (precision, kv)]
    ratios = [run.tokens_per_second / run.formula for run in mine if run.tokens_per_second and run.formula > 0]
    found = Lesson(
        runs=len(ratios),
        speed=statistics.median(ratios) if ratios else 1.0,
        gpu=max((size for run in related for device, size in run.extra.items() if device != CPU), default=0),
        ram=max(
            (run.extra.get(CPU, 0) for run in related if run.strategy in (strategy, *IN_RAM.get(strategy, ()))),
            default=0,
        ),
    )
    return NOTHING if found == NOTHING else found


def alike(plans: Iterable[Plan]) -> list[Plan]:
    """The plans; those that were never measured have the speed of one that was and holds the model in just the
    same way: ``ram-offload`` with every layer on GPUs is ``multi-gpu`` by another name."""
    plans = list(plans)
    known = {_way(plan): plan for plan in plans if _learned(plan) != 1.0}
    return [_like(plan, known.get(_way(plan), plan)) for plan in plans]


def _way(plan: Plan) -> tuple[object, ...]:
    """Plans of which this is equal do the same work: nothing is moved by one that is not by the other."""
    return plan.precision, plan.kv, plan.main_device, tuple(plan.placement.items()), round(plan.formula, 6)


def _learned(plan: Plan) -> float:
    """By what earlier runs changed its predicted speed."""
    return plan.tokens_per_second / plan.formula if plan.formula else 1.0


def _like(plan: Plan, measured: Plan) -> Plan:
    if _learned(plan) != 1.0 or _learned(measured) == 1.0:
        return plan
    learned = _learned(measured)
    gave = f"gave {learned:.0%} of the speed by arithmetic here"
    return msgspec.structs.replace(
        plan,
        tokens_per_second=plan.tokens_per_second * learned,
        full_tokens_per_second=plan.full_tokens_per_second * learned,
        because=(*plan.because, f"{measured.strategy} holds it in the same way and {gave}: that is counted"),
    )


def gaps(plan: Plan, measured: dict[str, Account]) -> dict[str, int]:
    """Device to bytes of weights and compute beyond the planned ones (negative: below), where that is over GAP.
    Compute that is below is no gap: a full context still needs it; nor is the KV cache, which grows."""
    found = {}
    for device in (plan.devices.keys() | measured.keys()) - {DISK}:
        planned, got = plan.devices.get(device, Account()), measured.get(device, Account())
        weights = got.weights - planned.weights
        beyond = weights + (got.compute - planned.compute)
        gap = beyond if beyond > 0 else min(0, weights)
        if abs(gap) > max(GAP * (planned.weights + planned.compute), SMALL):
            found[device] = gap
    return found
