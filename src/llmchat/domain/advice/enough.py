"""What would do where this machine does not hold the model on its GPUs: other hardware, or a smaller model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from llmchat.domain.advice import families
from llmchat.domain.advice.ranking import ordered
from llmchat.domain.memory import CPU, GIB, cuda
from llmchat.domain.placing import checks
from llmchat.domain.placing.case import Case
from llmchat.domain.plan import Plan, Precision, Request
from llmchat.domain.precision import ORDER
from llmchat.domain.strategies import cpu, multi_gpu, single_gpu
from llmchat.domain.words import PRECISIONS, costs, place

OFFERED = (Precision.PUBLISHED, Precision.INT4)


def sentences(case: Case, best: Plan | None, request: Request) -> tuple[str, ...]:
    """``case``: weights as published. Empty where nothing better is to be had: those fit on GPUs, or the person is
    content with the CPU at a comfortable speed."""
    comfortable = best is not None and best.pace >= request.comfortable
    found = []
    if not (comfortable and best and best.main_device == CPU):
        better = [one for one in _cases(case) if _is_better(one.precision, best)]
        found += [*_one_gpu(better), *_more_gpus(better)]
    if not comfortable:
        found += _smaller(case)
    return tuple(found)


def _is_better(precision: Precision, best: Plan | None) -> bool:
    """Whether to hold it on GPUs in this precision would be more than the best plan does."""
    on_gpus = best is not None and best.runner == "resident" and best.main_device != CPU
    return not on_gpus or best is None or ORDER.index(precision) < ORDER.index(best.precision)


def _cases(case: Case) -> Iterator[Case]:
    for precision in OFFERED:
        one = replace(case, precision=precision)
        if not case.problem and not checks.not_quantizable(one, single_gpu.NAME):
            yield one


def _one_gpu(cases: Sequence[Case]) -> Iterator[str]:
    sizes = [f"{-(-single_gpu.enough(case) // GIB)} GiB free {PRECISIONS[case.precision]}" for case in cases]
    if sizes:
        yield f"One GPU would hold it with {', with '.join(sizes)} (context {cases[0].context:,})."


def _more_gpus(cases: Sequence[Case]) -> Iterator[str]:
    words = []
    for one in cases:
        found = multi_gpu.more_that_are_enough(one)
        if found and found[0]:
            more, like = found
            model = f"{place(cuda(like.gpu.index))} ({like.gpu.name})"
            words.append(f"{more} more GPU{'s' if more > 1 else ''} like {model} {PRECISIONS[one.precision]}")
    if words:
        yield f"So would {', '.join(words)}."


def _smaller(case: Case) -> Iterator[str]:
    """The largest smaller model of the same family that answers comfortably here; else the smallest that fits."""
    last = None
    for facts in families.smaller(case.model):
        context = min(case.context, facts.max_context or case.context)
        plan = _best(replace(case, model=facts, context=context, remarks=(), problem="", gpu_only=False))
        if plan is not None:
            last = (facts, plan)
            if plan.pace >= case.request.comfortable:
                break
    if last:
        facts, plan = last
        yield f"{facts.id}, of the same family, would be {plan.label}: {costs(plan)}."


def _best(case: Case) -> Plan | None:
    """Of the ways that hold it on GPUs, or in RAM where there are none."""
    answers = (
        strategy.answer(one)
        for one in _cases(case)
        for strategy in (single_gpu.STRATEGY, multi_gpu.STRATEGY, cpu.STRATEGY)
    )
    rule = Request(comfortable=case.request.comfortable)
    plans = ordered([answer for answer in answers if isinstance(answer, Plan)], rule)
    return plans[0] if plans else None
