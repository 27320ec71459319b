"""What the planner learns from earlier runs."""

from __future__ import annotations

import msgspec
import pytest
from planner_cases import LLAMA_8B, LLAMA_70B, SMOL, machine, model, plan

from llmchat.domain.measured import NOTHING, Run, gaps, lesson
from llmchat.domain.memory import CPU, GIB, Account
from llmchat.domain.plan import Plan, Precision, Request
from llmchat.domain.planner import rank

RUN = Run(strategy="single-gpu", precision=Precision.PUBLISHED, formula=36.0, tokens_per_second=27.0, time=1.0)


def at(time: float, **changes: object) -> Run:
    return msgspec.structs.replace(RUN, time=time, **changes)


def test_the_median_of_the_latest_five_counts() -> None:
    speeds = [1.0, 18.0, 27.0, 27.0, 36.0, 54.0]  # the first is too old
    found = lesson(
        [at(n, tokens_per_second=s) for n, s in enumerate(speeds)], "single-gpu", Precision.PUBLISHED, "device"
    )
    assert found.speed == pytest.approx(0.75) and found.runs == 5


def test_only_the_same_way_to_hold_it_teaches() -> None:
    assert lesson([RUN], "single-gpu", Precision.INT4, "device") is NOTHING
    assert lesson([RUN], "multi-gpu", Precision.PUBLISHED, "device") is NOTHING
    assert lesson([RUN], "single-gpu", Precision.PUBLISHED, "ram") is NOTHING


def test_a_run_corrects_the_next_prediction_and_says_so() -> None:
    facts, hardware = model(LLAMA_8B), machine("h200")
    before = plan(rank(facts, hardware, Request()), "single-gpu")
    run = at(2.0, formula=before.formula, tokens_per_second=0.75 * before.formula)
    after = plan(rank(facts, hardware, Request(), [run]), "single-gpu")
    assert after.tokens_per_second == pytest.approx(0.75 * before.tokens_per_second)
    assert after.formula == before.formula
    assert "one earlier run of it here gave 75% of the speed by arithmetic: that is counted" in after.because


def test_bytes_beyond_the_plan_are_kept_free_the_next_time() -> None:
    facts, hardware = model(LLAMA_8B), machine("h200")
    before = plan(rank(facts, hardware, Request()), "single-gpu")
    run = at(2.0, extra={"cuda:0": 2 * GIB, CPU: GIB})
    after = plan(rank(facts, hardware, Request(), [run]), "single-gpu")
    assert after.devices["cuda:0"].engine - before.devices["cuda:0"].engine == 2 * GIB
    assert after.devices[CPU].engine - before.devices[CPU].engine == GIB


def test_a_plan_that_turned_out_too_large_is_refused_the_next_time() -> None:
    facts, hardware = model(LLAMA_70B), machine("rtx3090-x2")
    run = at(2.0, strategy="multi-gpu", precision=Precision.INT4, extra={"cuda:1": 4 * GIB})
    ranking = rank(facts, hardware, Request(), [run])
    assert not any(p.strategy == "multi-gpu" and p.kv == "device" for p in ranking.plans)


def test_bytes_beyond_the_plan_count_for_other_strategies_that_take_them() -> None:
    found = lesson([at(1.0, extra={"cuda:0": GIB, CPU: GIB})], "multi-gpu", Precision.PUBLISHED, "device")
    assert (found.gpu, found.ram, found.runs) == (GIB, 0, 0)
    on_cpu = at(1.0, strategy="cpu", extra={CPU: GIB})
    assert lesson([on_cpu], "disk-offload", Precision.PUBLISHED, "device").ram == GIB
    assert lesson([on_cpu], "single-gpu", Precision.PUBLISHED, "device") is NOTHING
    assert lesson([on_cpu], "disk-offload", Precision.INT4, "device") is NOTHING


@pytest.mark.parametrize(
    ("hardware", "measured", "others"),
    [("h200", "single-gpu", ("ram-offload", "disk-offload")), ("no-gpu-24gb", "cpu", ("disk-offload",))],
)
def test_what_holds_the_model_in_the_same_way_is_as_fast(
    hardware: str, measured: str, others: tuple[str, ...]
) -> None:
    """Else a mechanism that moves nothing would look faster than the plan that was slow when measured."""
    facts, here = model(SMOL), machine(hardware)
    before = plan(rank(facts, here, Request()), measured)
    run = at(2.0, strategy=measured, formula=before.formula, tokens_per_second=0.5 * before.formula)
    ranking = rank(facts, here, Request(), [run])
    for name in others:
        twin = plan(ranking, name)
        assert twin.tokens_per_second == pytest.approx(0.5 * before.formula)
        assert twin.full_tokens_per_second == pytest.approx(plan(ranking, measured).full_tokens_per_second)
        assert any(f"{measured} holds it in the same way and gave 50%" in reason for reason in twin.because)
    assert ranking.best and ranking.best.strategy not in others


def account(weights: float, compute: float) -> Account:
    return Account(weights=int(weights * GIB), compute=int(compute * GIB))


@pytest.mark.parametrize(
    ("measured", "gap"),
    [
        (account(10, 1), None),
        (account(10, 1.5), None),
        (account(10.5, 1), None),
        (account(12, 1), 2.0),
        (account(10, 3), 2.0),
        (account(10, 0), None),
        (account(6, 1), -4.0),
    ],
)
def test_a_gap_is_more_than_five_percent_of_weights_and_compute(measured: Account, gap: float | None) -> None:
    planned: Plan = msgspec.structs.replace(
        plan(rank(model(LLAMA_8B), machine("h200"), Request()), "single-gpu"), devices={"cuda:0": account(10, 1)}
    )
    found = gaps(planned, {"cuda:0": measured})
    assert found.get("cuda:0") == (None if gap is None else pytest.approx(gap * GIB))
