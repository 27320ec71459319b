"""Speed on a CPU that was measured, against what the same machine then did."""

from __future__ import annotations

import msgspec
import pytest
from planner_cases import LLAMA_8B, SMOL, STRATEGIES, machine, model

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.plan import Plan, Precision, Request

EPYC = HardwareProfile(
    ram_total=16 * 2**30,
    ram_available=14 * 2**30,
    cores=2,
    ram_bandwidth=23.2e9,
    ram_bandwidth_16bit=29.2e9,
    cpu_matmul=214e9,
    cpu_matmul_16bit=963e9,
    layer_overhead=0.222e-3,
    software=machine("no-gpu-24gb").software,
)
"""Two cores with AVX512-BF16, as calibration found them on an idle machine in December 2026."""


def planned(hardware: HardwareProfile, precision: Precision = Precision.PUBLISHED, facts: str = SMOL) -> Plan:
    answer = STRATEGIES["cpu"].propose(model(facts), hardware, Request(), precision, 8192)
    assert isinstance(answer, Plan), answer
    return answer


@pytest.mark.parametrize(
    ("precision", "tokens_per_second", "first_token"),
    [(Precision.PUBLISHED, 46.9, 0.286), (Precision.INT8, 27.1, 0.531), (Precision.INT4, 58.0, 0.359)],
)
def test_near_what_was_measured(precision: Precision, tokens_per_second: float, first_token: float) -> None:
    plan = planned(EPYC, precision)
    assert plan.speed_at(100) == pytest.approx(tokens_per_second, rel=0.2)  # 40 of prompt, 128 of reply
    assert plan.time_to_first_token == pytest.approx(first_token, rel=0.2)


@pytest.mark.parametrize(("tokens", "milliseconds"), [(32, 23.9), (512, 31.0), (2000, 51.4), (7000, 115.7)])
def test_attention_slows_a_cpu_down_as_the_context_fills(tokens: int, milliseconds: float) -> None:
    """SmolLM2 decoding after so many tokens, measured when the machine read 23.6 GB/s and launched in 0.38 ms."""
    then = msgspec.structs.replace(EPYC, ram_bandwidth_16bit=23.6e9, layer_overhead=0.38e-3)
    assert 1000 / planned(then).speed_at(tokens) == pytest.approx(milliseconds, rel=0.2)


def test_nothing_is_assumed_of_a_measured_cpu() -> None:
    assert not any("assumed" in reason for reason in planned(EPYC).because)
    unknown = msgspec.structs.replace(EPYC, cpu_matmul_16bit=None)
    assert any("16-bit instructions" in reason for reason in planned(unknown).because)


def test_four_bit_is_slow_without_instructions_for_bfloat16() -> None:
    old = msgspec.structs.replace(EPYC, cpu_matmul_16bit=EPYC.cpu_matmul_16bit / 40)  # type: ignore[operator]
    assert planned(old, Precision.INT4).tokens_per_second < 0.7 * planned(EPYC, Precision.INT4).tokens_per_second


def test_a_measured_gpu_prefills_as_measured() -> None:
    hardware = machine("h200")
    fast, slow = (
        msgspec.structs.replace(hardware, gpus=(msgspec.structs.replace(hardware.gpus[0], matmul=rate),))
        for rate in (600e12, 60e12)
    )
    times = []
    for there in (fast, slow):
        answer = STRATEGIES["single-gpu"].propose(model(LLAMA_8B), there, Request(), Precision.PUBLISHED, 8192)
        assert isinstance(answer, Plan)
        times.append(answer.time_to_first_token)
    assert times[0] == pytest.approx(0.03, rel=0.2)
    assert times[1] > 5 * times[0]
