"""Ranking, explanations, refusals and their remedies, on real models and machines."""

from __future__ import annotations

import re
import time

import msgspec
import pytest
from planner_cases import (
    GEMMA_27B,
    LLAMA_8B,
    LLAMA_70B,
    LLAMA_405B,
    MACHINES,
    MODELS,
    SMOL,
    STRATEGIES,
    WIZARD_13B,
    in_gib,
    machine,
    model,
    plan,
    refusal,
)

from llmchat.domain.hardware import Gpu
from llmchat.domain.memory import CPU, DISK, GIB
from llmchat.domain.placing.case import Case
from llmchat.domain.plan import Plan, Precision, Refusal, Request
from llmchat.domain.planner import rank
from llmchat.errors import UsageError


def test_known_figures() -> None:
    assert model(LLAMA_70B).weight_bytes / 1e9 == pytest.approx(141.1, abs=0.05)
    assert in_gib(model(LLAMA_70B).kv_bytes(131072)) == 40.0
    assert in_gib(model(LLAMA_8B).kv_bytes(131072)) == 16.0
    assert in_gib(model(GEMMA_27B).kv_bytes(131072)) == pytest.approx(10.4, abs=0.05)


@pytest.mark.parametrize("hardware", MACHINES)
@pytest.mark.parametrize("facts", MODELS)
def test_every_strategy_at_every_precision_is_listed_once(facts: str, hardware: str) -> None:
    ranking = rank(model(facts), machine(hardware), Request())
    pairs = [(p.strategy, p.precision) for p in ranking.proposals if p.kv == "device"]
    assert sorted(pairs) == sorted((s, p) for s in STRATEGIES for p in Precision)
    kinds = [isinstance(p, Plan) for p in ranking.proposals]
    assert kinds == sorted(kinds, reverse=True)
    assert ranking.best == (ranking.plans[0] if ranking.plans else None)
    assert ranking == rank(model(facts), machine(hardware), Request())


class TestBest:
    def test_wizardlm_13b_on_four_v100(self) -> None:
        best = rank(model(WIZARD_13B), machine("p3.8xlarge"), Request()).best
        assert best is not None
        assert (best.strategy, best.precision) == ("multi-gpu", Precision.PUBLISHED)

    def test_llama_70b_in_4_bit_on_two_3090(self) -> None:
        best = rank(model(LLAMA_70B), machine("rtx3090-x2"), Request()).best
        assert best is not None
        assert best.label == "multi-gpu · 4bit"

    def test_llama_70b_in_4_bit_not_on_one_3090(self) -> None:
        ranking = rank(model(LLAMA_70B), machine("rtx3090-x1"), Request())
        single = refusal(ranking, "single-gpu", Precision.INT4)
        assert single.device == "cuda:0"
        assert 15 < in_gib(single.missing) < 19
        assert f"{in_gib(single.missing):.1f} GiB" in single.reason
        assert any(re.search(r"A GPU with \d+ GiB", remedy) for remedy in single.remedies)

    def test_llama_70b_as_published_on_gh200_is_managed(self) -> None:
        best = rank(model(LLAMA_70B), machine("gh200-96gb"), Request(precision=Precision.PUBLISHED)).best
        assert best is not None
        assert best.strategy == "managed"

    def test_llama_70b_on_uneven_gpus_needs_no_offload(self) -> None:
        best = rank(model(LLAMA_70B), machine("uneven-80-48-12"), Request(precision=Precision.PUBLISHED)).best
        assert best is not None
        assert best.strategy == "multi-gpu"
        assert {CPU, DISK}.isdisjoint(best.placement.values())

    def test_smollm2_without_a_gpu_is_cpu(self) -> None:
        best = rank(model(SMOL), machine("no-gpu-24gb"), Request()).best
        assert best is not None
        assert (best.strategy, best.precision) == ("cpu", Precision.PUBLISHED)


class TestPreference:
    def test_quality_takes_the_most_precise_however_slow(self) -> None:
        best = rank(model(LLAMA_8B), machine("laptop-8gb"), Request(prefer="quality")).best
        assert best is not None
        assert best.precision is Precision.PUBLISHED
        assert best.tokens_per_second < 8

    def test_speed_takes_the_fastest(self) -> None:
        ranking = rank(model(LLAMA_70B), machine("gh200-96gb"), Request(prefer="speed"))
        assert ranking.best is not None
        fastest = max(plan.tokens_per_second for plan in ranking.plans)
        assert ranking.best.tokens_per_second == pytest.approx(fastest, rel=0.05)

    def test_balanced_takes_the_most_precise_comfortable_one(self) -> None:
        for comfortable in (0.5, 5.0, 8.0, 20.0, 1e6):
            request = Request(comfortable=comfortable)
            ranking = rank(model(LLAMA_70B), machine("gh200-96gb"), request)
            assert ranking.best is not None
            order = list(Precision)
            comfy = [p.precision for p in ranking.plans if p.tokens_per_second >= comfortable]
            if comfy:
                assert ranking.best.precision is min(comfy, key=order.index)
                assert ranking.best.tokens_per_second >= comfortable
            else:
                assert ranking.best.tokens_per_second == pytest.approx(
                    max(p.tokens_per_second for p in ranking.plans), rel=0.05
                )

    def test_a_mechanism_that_moves_nothing_is_not_preferred(self) -> None:
        ranking = rank(model(LLAMA_8B), machine("h200"), Request())
        assert ranking.plans[0].strategy == "single-gpu"
        idle = {"ram-offload", "disk-offload", "managed"}
        assert {p.strategy for p in ranking.plans[-5:]} == idle


class TestWhatIsSet:
    def test_strategy_and_precision_are_kept(self) -> None:
        request = Request(strategy="cpu", precision=Precision.PUBLISHED)
        ranking = rank(model(LLAMA_8B), machine("h200"), request)
        assert ranking.best is not None
        assert (ranking.best.strategy, ranking.best.precision) == ("cpu", Precision.PUBLISHED)
        assert len(ranking.proposals) == len(STRATEGIES) * len(Precision)

    def test_a_strategy_that_cannot_be_is_not_replaced(self) -> None:
        ranking = rank(model(LLAMA_70B), machine("rtx3090-x1"), Request(strategy="single-gpu"))
        assert ranking.best is None
        assert ranking.plans
        assert "single-gpu" in ranking.why
        assert "GiB more" in ranking.why
        assert isinstance(first := next(p for p in ranking.proposals if isinstance(p, Refusal)), Refusal)
        assert first.strategy == "single-gpu"

    def test_context_is_kept(self) -> None:
        ranking = rank(model(LLAMA_8B), machine("h200"), Request(context=100_000))
        assert {p.context for p in ranking.proposals} == {100_000}

    def test_context_is_8192_or_the_models(self) -> None:
        assert rank(model(LLAMA_8B), machine("h200"), Request()).proposals[0].context == 8192
        assert rank(model(WIZARD_13B), machine("h200"), Request()).proposals[0].context == 4096

    def test_budgets_are_kept(self) -> None:
        request = Request(gpu_budget={0: 9 * GIB}, ram_budget=11 * GIB)
        ranking = rank(model(LLAMA_8B), machine("h200"), request)
        assert ranking.plans
        for found in ranking.plans:
            assert found.devices[CPU].engine <= 11 * GIB
            assert "cuda:0" not in found.devices or found.devices["cuda:0"].engine <= 9 * GIB


class TestUsageErrors:
    def test_context_beyond_the_models(self) -> None:
        with pytest.raises(UsageError) as caught:
            rank(model(WIZARD_13B), machine("h200"), Request(context=5000))
        assert "5,000" in caught.value.problem.message
        assert "4,096" in caught.value.problem.message

    def test_context_of_nothing(self) -> None:
        with pytest.raises(UsageError):
            rank(model(WIZARD_13B), machine("h200"), Request(context=0))

    def test_unknown_strategy(self) -> None:
        with pytest.raises(UsageError) as caught:
            rank(model(SMOL), machine("h200"), Request(strategy="single"))
        assert "single-gpu" in caught.value.problem.remedy

    def test_budget_for_a_gpu_that_is_not_there(self) -> None:
        with pytest.raises(UsageError) as caught:
            rank(model(SMOL), machine("h200"), Request(gpu_budget={3: GIB}))
        assert "GPU 3" in caught.value.problem.message


class TestRemedies:
    def test_the_shorter_context_fits_and_a_longer_does_not(self) -> None:
        ranking = rank(model(LLAMA_8B), machine("rtx3090-x1"), Request(context=131072))
        single = refusal(ranking, "single-gpu")
        found = (re.search(r"context of ([\d,]+) tokens", remedy) for remedy in single.remedies)
        offered = next(int(match[1].replace(",", "")) for match in found if match)
        plan(rank(model(LLAMA_8B), machine("rtx3090-x1"), Request(context=offered)), "single-gpu")
        refusal(rank(model(LLAMA_8B), machine("rtx3090-x1"), Request(context=offered + 256)), "single-gpu")

    def test_lower_precision_and_other_strategy_are_offered(self) -> None:
        ranking = rank(model(LLAMA_8B), machine("laptop-8gb"), Request())
        texts = " ".join(refusal(ranking, "single-gpu").remedies)
        assert "in 4 bit" in texts
        assert "Use " in texts

    def test_nearest_miss_comes_first_and_hopeless_ones_last(self) -> None:
        ranking = rank(model(LLAMA_405B), machine("no-gpu-24gb"), Request())
        refusals = [p for p in ranking.proposals if isinstance(p, Refusal)]
        missing = [r.missing for r in refusals if r.device]
        assert missing == sorted(missing)
        assert all(r.device for r in refusals[: len(missing)])


class TestWhy:
    def test_says_why_not_more_precise(self) -> None:
        why = rank(model(LLAMA_8B), machine("laptop-8gb"), Request()).why
        assert "4 bit" in why
        assert "As published" in why
        assert "In 8 bit" in why

    def test_nothing_fits(self) -> None:
        tiny = msgspec.structs.replace(machine("no-gpu-24gb"), ram_available=GIB)
        ranking = rank(model(LLAMA_405B), tiny, Request())
        assert ranking.best is None
        assert "Nothing fits" in ranking.why
        assert "GiB more" in ranking.why

    def test_assumptions_are_named_and_measurements_are_not(self) -> None:
        assumed = plan(rank(model(LLAMA_8B), machine("rtx3090-x1"), Request()), "single-gpu")
        assert any("assumed" in reason and "datasheet" in reason for reason in assumed.because)
        measured = plan(rank(model(LLAMA_8B), machine("h200"), Request()), "single-gpu")
        assert not any("assumed" in reason for reason in measured.because)


@pytest.mark.parametrize("room", [30, 60, 90, 100])
def test_ranks_126_layers_on_8_gpus_in_50_ms(room: int) -> None:
    gpus = tuple(
        Gpu(index=i, name="NVIDIA H200", total=140 * GIB, free=(room + 5 * i) * GIB, capability=(9, 0))
        for i in range(8)
    )
    hardware = msgspec.structs.replace(machine("h200"), gpus=gpus)

    def seconds() -> float:
        start = time.process_time()
        rank(model(LLAMA_405B), hardware, Request())
        return time.process_time() - start

    assert min(seconds() for _ in range(5)) < 0.05


def test_cases_are_computed_once() -> None:
    """Strategies share what they start from: the same case answers twice with the same blocks."""
    case = Case(model(SMOL), machine("h200"), Request(), Precision.PUBLISHED, 2048)
    assert case.blocks is case.blocks


@pytest.mark.parametrize(
    ("hardware", "strategy"), [("h200", "disk-offload"), ("h200", "ram-offload"), ("no-gpu-24gb", "disk-offload")]
)
def test_a_plan_that_moves_nothing_comes_last_and_says_so_first(hardware: str, strategy: str) -> None:
    plans = rank(model(SMOL), machine(hardware), Request()).plans
    found = next(plan for plan in plans if plan.strategy == strategy)
    assert "nothing is moved" in found.because[0]
    resident = [number for number, plan in enumerate(plans) if plan.runner == "resident"]
    assert plans.index(found) > max(resident)


def test_a_disk_offload_without_disk_comes_last() -> None:
    request = Request(gpu_budget={0: int(7.5 * GIB)})
    plans = rank(model(LLAMA_8B), machine("h200"), request).plans
    found = next(plan for plan in plans if plan.strategy == "disk-offload")
    assert "nothing lies on disk" in found.because[0]
    assert plans[-1] == found
