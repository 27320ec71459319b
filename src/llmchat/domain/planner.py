"""Ask every strategy at every precision, put the answers in order, and say why the best is the best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from llmchat.domain import prequantized
from llmchat.domain.advice import enough, ranking, remedies, verdict
from llmchat.domain.advice.ranking import asked_for
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.measured import NOTHING, Run, alike, lesson
from llmchat.domain.memory import CPU, cuda
from llmchat.domain.model import ModelFacts
from llmchat.domain.placing import checks
from llmchat.domain.placing.case import Case, Strategy
from llmchat.domain.plan import Kv, Plan, Precision, Proposal, Ranking, Refusal, Request
from llmchat.domain.precision import ORDER
from llmchat.domain.strategies import ALL, cpu
from llmchat.domain.words import place
from llmchat.errors import UsageError

__all__ = ["DEFAULT_CONTEXT", "asked_for", "rank"]

DEFAULT_CONTEXT = 8192
"""Tokens, where the person sets none and the model does not end earlier."""
ELSEWHERE: tuple[Kv, ...] = ("8bit", "ram")
"""Policies for the KV cache that are tried where it does not fit with its layers."""


def rank(model: ModelFacts, hardware: HardwareProfile, request: Request, runs: Sequence[Run] = ()) -> Ranking:
    """Every strategy times every precision, best first. Pure: the same arguments give the same ranking.

    ``runs``: what earlier runs of this model on this machine gave. Raises UsageError for an unknown strategy, a
    context that the model does not have, and GPUs that are not there.
    """
    _check(model, hardware, request)
    context = request.context or min(DEFAULT_CONTEXT, model.max_context or DEFAULT_CONTEXT)
    inquiry = _Inquiry(model, hardware, request, tuple(runs), context)
    proposals = [answer for precision in ORDER for answer in inquiry.at(precision)]
    plans = ranking.ordered(alike(p for p in proposals if isinstance(p, Plan)), request)
    best = next((plan for plan in plans if asked_for(plan, request)), None)
    refusals = sorted((p for p in proposals if isinstance(p, Refusal)), key=_nearest(request))
    helped = tuple(remedies.with_others(refusal, plans) for refusal in refusals)
    return Ranking(
        proposals=(*_explained(plans, best, request), *helped),
        best=best,
        why=verdict.why(best, tuple(plans), helped, request, hardware),
        enough=enough.sentences(inquiry.case(Precision.PUBLISHED), best, request),
    )


@dataclass(frozen=True)
class _Inquiry:
    """One question to all strategies."""

    model: ModelFacts
    hardware: HardwareProfile
    request: Request
    runs: tuple[Run, ...]
    context: int

    def at(self, precision: Precision) -> Iterator[Proposal]:
        on_gpu, on_cpu = self.case(precision), self.case(precision, on_gpu=False)
        beside_gpus, beside_cpu = _elsewhere(on_gpu, _policies(on_gpu)), _elsewhere(on_cpu, ("8bit",))
        for strategy in ALL:
            if strategy is cpu.STRATEGY:
                yield from self._answers(strategy, on_cpu, beside_cpu)
            else:
                yield from self._answers(strategy, on_gpu, beside_gpus)

    def case(self, precision: Precision, on_gpu: bool = True) -> Case:
        on_gpu = on_gpu and bool(self.hardware.gpus)
        held = prequantized.resolve(self.model, self.hardware, on_gpu)
        kv = self.request.kv or "device"
        if kv == "ram" and not on_gpu:  # where the CPU executes, it lies there with its layers
            kv = "device"
        return Case(
            held.model,
            self.hardware,
            self.request,
            precision,
            self.context,
            kv,
            remarks=held.remarks,
            problem=held.problem,
            remedy=held.remedy,
            gpu_only=held.gpu_only,
        )

    def _answers(self, strategy: Strategy, case: Case, elsewhere: Sequence[Case]) -> Iterator[Proposal]:
        """With the KV cache as asked; where that does not fit and nothing was asked, also what fits otherwise."""
        answer = self._answer(strategy, case)
        yield remedies.with_context(strategy, case, answer)
        if isinstance(answer, Refusal) and self.request.kv is None and _could_help(case, answer):
            others = (self._answer(strategy, other) for other in elsewhere)
            yield from (other for other in others if isinstance(other, Plan) and not _same_place(other))

    def _answer(self, strategy: Strategy, case: Case) -> Proposal:
        if refusal := checks.not_loadable(case, strategy.name):
            return refusal
        learned = lesson(self.runs, strategy.name, case.precision, case.kv)
        return strategy.answer(case if learned is NOTHING else replace(case, lesson=learned))


def _could_help(case: Case, refusal: Refusal) -> bool:
    """Whether to put the KV cache elsewhere could make up for what is missing, uneven layers allowed for."""
    slack = max((layer.size for layer in case.blocks.layers), default=0)
    return 0 < refusal.missing <= case.blocks.kv + slack


def _elsewhere(case: Case, policies: Sequence[Kv]) -> list[Case]:
    """The same with the KV cache kept otherwise; none for a model without one."""
    return [replace(case, kv=policy) for policy in policies] if case.blocks.kv else []


def _policies(case: Case) -> tuple[Kv, ...]:
    """What can help there: RAM only beside a GPU with memory of its own."""
    own = any(gpu.managed != "integrated" for gpu in case.hardware.gpus)
    return ELSEWHERE if own else ("8bit",)


def _same_place(plan: Plan) -> bool:
    """A KV cache in RAM of a plan that the CPU executes is where it would be anyway."""
    return plan.kv == "ram" and plan.main_device == CPU


def _explained(plans: Sequence[Plan], best: Plan | None, request: Request) -> Iterator[Plan]:
    """The plans with why each of them is not the best."""
    for plan in plans:
        if best is None or plan is best:
            yield plan
        else:
            yield msgspec.structs.replace(plan, why_not=ranking.why_not(plan, best, plans, request))


def _nearest(request: Request) -> Callable[[Refusal], ranking.Key]:
    """What was asked for first, then by bytes missing; what no memory can lift comes last."""

    def key(refusal: Refusal) -> ranking.Key:
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
    devices = ", ".join(place(cuda(number)) for number in sorted(there)) or "no GPU"
    named = [(index, "A budget was set for") for index in request.gpu_budget]
    named += [(index, "You want to use") for index in request.gpus]
    for index, what in named:
        if index not in there:
            raise UsageError(
                "No such GPU", f"{what} GPU {index}; this machine has {devices}.", "Name GPUs that are there."
            )
