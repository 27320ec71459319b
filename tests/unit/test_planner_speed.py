"""Predicted speed against what was measured, and against what must hold whatever the figures."""

from __future__ import annotations

import msgspec
import pytest
from planner_cases import LLAMA_8B, LLAMA_70B, SMOL, STRATEGIES, machine, model, with_gpu

from llmchat.domain.memory import GIB
from llmchat.domain.plan import Plan, Precision, Request
from llmchat.domain.speed import datasheet


def planned(
    strategy: str,
    facts: str,
    hardware: object,
    precision: Precision = Precision.PUBLISHED,
    request: Request | None = None,
) -> Plan:
    answer = STRATEGIES[strategy].propose(model(facts), hardware, request or Request(), precision, 8192)  # type: ignore[arg-type]
    assert isinstance(answer, Plan), answer
    return answer


@pytest.mark.parametrize(
    ("strategy", "facts", "hardware", "precision", "measured"),
    [
        ("single-gpu", LLAMA_8B, "h200", Precision.PUBLISHED, 33.6),
        ("single-gpu", LLAMA_8B, "h200", Precision.INT8, 8.6),
        ("single-gpu", LLAMA_8B, "h200", Precision.INT4, 21.8),
        ("cpu", SMOL, "no-gpu-24gb", Precision.PUBLISHED, 25),
    ],
)
def test_near_what_was_measured(
    strategy: str, facts: str, hardware: str, precision: Precision, measured: float
) -> None:
    plan = planned(strategy, facts, machine(hardware), precision)
    assert plan.tokens_per_second == pytest.approx(measured, rel=0.2)


def test_offload_is_bound_by_pageable_copies() -> None:
    """8 billion parameters with some 6 GiB of them on an H200: 0.62 tokens/s, 1.5 s for 512 tokens."""
    plan = planned("ram-offload", LLAMA_8B, machine("h200"), request=Request(gpu_budget={0: int(7.5 * GIB)}))
    assert plan.tokens_per_second == pytest.approx(0.62, rel=0.2)
    assert plan.time_to_first_token == pytest.approx(1.5, rel=0.2)


def test_prefill_of_512_tokens_on_h200() -> None:
    assert planned("single-gpu", LLAMA_8B, machine("h200")).time_to_first_token == pytest.approx(0.03, rel=0.2)


def test_layers_on_several_gpus_run_in_turn() -> None:
    """A second equal GPU makes it no faster, for it waits for the first."""
    slow = msgspec.structs.replace(machine("p3.8xlarge"), layer_overhead=1e-6)
    spread = planned("multi-gpu", LLAMA_8B, slow)
    alone = planned("single-gpu", LLAMA_8B, with_gpu(slow, 0, free=24 * GIB, total=24 * GIB))
    assert spread.tokens_per_second == pytest.approx(alone.tokens_per_second, rel=0.01)


def test_twice_the_bandwidth_is_twice_as_fast_where_bandwidth_binds() -> None:
    base = msgspec.structs.replace(machine("h200"), layer_overhead=1e-6)
    one = planned("single-gpu", LLAMA_70B, with_gpu(base, 0, read_bandwidth=1e12), Precision.INT8)
    two = planned("single-gpu", LLAMA_70B, with_gpu(base, 0, read_bandwidth=2e12), Precision.INT8)
    assert two.tokens_per_second / one.tokens_per_second == pytest.approx(2, rel=0.01)


def test_coherent_overflow_is_read_over_the_link_and_paging_is_far_slower() -> None:
    coherent = planned("managed", LLAMA_70B, machine("gh200-96gb"))
    paged = planned("managed", LLAMA_70B, with_gpu(machine("gh200-96gb"), 0, managed="paged"))
    assert coherent.tokens_per_second > 100 * paged.tokens_per_second


def test_a_slow_link_is_slower_than_the_pageable_rate() -> None:
    request = Request(gpu_budget={0: 8 * GIB})
    usual = planned("ram-offload", LLAMA_8B, machine("h200"), request=request)
    slower = with_gpu(machine("h200"), 0, link_bandwidth=2e9, pageable_bandwidth=None)
    slow = planned("ram-offload", LLAMA_8B, slower, request=request)
    assert slow.tokens_per_second < 0.5 * usual.tokens_per_second


def test_the_disk_is_named_as_assumed_where_it_is_not_measured() -> None:
    plan = planned("disk-offload", LLAMA_70B, machine("rtx3090-x1"))
    assert any("disk" in reason and "assumed" in reason for reason in plan.because)


def test_ratings_tell_similar_names_apart() -> None:
    gh200, h200 = datasheet.rating("NVIDIA GH200 480GB"), datasheet.rating("NVIDIA H200")
    assert gh200.bandwidth < h200.bandwidth
    large, small = datasheet.rating("NVIDIA A100-SXM4-80GB"), datasheet.rating("NVIDIA A100-PCIE-40GB")
    assert large.bandwidth > small.bandwidth
    assert datasheet.rating("NVIDIA L40S").compute > datasheet.rating("NVIDIA L40").compute
    assert datasheet.rating("NVIDIA GB10").bandwidth < datasheet.rating("NVIDIA GB200").bandwidth
    assert datasheet.rating("a GPU of tomorrow") is datasheet.UNKNOWN
