"""What would do where this machine does not hold the model on its GPUs: other hardware, or a smaller model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llmchat.domain import families
from llmchat.domain.memory import CPU, GIB, cuda
from llmchat.domain.plan import Plan, Precision, Request
from llmchat.domain.ranking import ordered
from llmchat.domain.strategies import checks, multi_gpu, single_gpu
from llmchat.domain.strategies.base import Case
from llmchat.domain.words import PRECISIONS, costs, place

OFFERED = (Precision.PUBLISHED, Precision.INT4)


def sentences(case: Case, best: Plan | None, request: Request) -> tuple[str, ...]:
    """``case``: weights as published. Empty where the best plan holds those on GPUs and reads comfortably."""
    comfortable = best is not None and best.pace >= request.comfortable
    on_gpus = best is not None and best.runner == "resident" and best.main_device != CPU
    found = []
    if not comfortable or (best and best.precision is not Precision.PUBLISHED and not request.precision):
        found += [] if on_gpus and best and best.precision is Precision.PUBLISHED else _hardware(case)
    if not comfortable:
        found += _smaller(case)
    return tuple(found)


def _hardware(case: Case) -> list[str]:
    return [*_one_gpu(case), *_more_gpus(case)]


def _cases(case: Case) -> Iterator[Case]:
    for precision in OFFERED:
        one = replace(case, precision=precision)
        if not case.problem and not checks.not_quantizable(one, single_gpu.NAME):
            yield one


def _one_gpu(case: Case) -> Iterator[str]:
    sizes = [f"{-(-single_gpu.enough(c) // GIB)} GiB free {PRECISIONS[c.precision]}" for c in _cases(case)]
    if sizes:
        yield f"One GPU would hold it with {', with '.join(sizes)} (context {case.context:,})."


def _more_gpus(case: Case) -> Iterator[str]:
    words = []
    for one in _cases(case):
        found = multi_gpu.more_that_are_enough(one)
        if found and found[0]:
            more, like = found
            words.append(f"{more} more GPU{'s' if more > 1 else ''} like {place(cuda(like.gpu.index))} "
                         f"({like.gpu.name}) {PRECISIONS[one.precision]}")  # fmt: skip
    if words:
        yield f"So would {', '.join(words)}."


def _smaller(case: Case) -> Iterator[str]:
    """The largest smaller model of the same family that answers comfortably here; else the smallest that fits."""
    last = None
    for facts in families.smaller(case.model):
        context = min(case.context, facts.max_context or case.context)
        plan = _best(replace(case, model=facts, context=context, remarks=(), problem=""))
        if plan is not None:
            last = (facts, plan)
            if plan.pace >= case.request.comfortable:
                break
    if last:
        facts, plan = last
        yield f"{facts.id}, of the same family, would be {plan.label}: {costs(plan)}."


def _best(case: Case) -> Plan | None:
    """Of the ways that hold it on GPUs, or in RAM where there are none."""
    from llmchat.domain.strategies import cpu

    answers = (
        strategy.answer(one)
        for one in _cases(case)
        for strategy in (single_gpu.STRATEGY, multi_gpu.STRATEGY, cpu.STRATEGY)
    )
    plans = ordered([answer for answer in answers if isinstance(answer, Plan)], Request())
    return plans[0] if plans else None
