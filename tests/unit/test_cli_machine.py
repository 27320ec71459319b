"""How ``doctor`` describes a machine."""

from __future__ import annotations

import msgspec
import pytest
from planner_cases import machine as hardware

from llmchat.commands.machine import parts, speeds
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import GIB


def with_gpu(profile: HardwareProfile, **changes: object) -> HardwareProfile:
    gpu = msgspec.structs.replace(profile.gpus[0], **changes)
    return msgspec.structs.replace(profile, gpus=(gpu, *profile.gpus[1:]))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("gh200-96gb", "compute capability 9.0, coherent with the RAM"),
        ("gb10-128gb", "compute capability 12.1, shares the RAM"),
        ("h100-mig-3g.40gb", "MIG-00000000-0000-5000-8000-000000000000, MIG instance, compute"),
        ("p3.8xlarge", "driver   570.86, CUDA up to 12.8; torch is built for CUDA 12.8"),
        ("container-32gb", "RAM      30.0 GiB of 32.0 GiB available; the control group (container) sets"),
        ("laptop-8gb", "swap     8.0 GiB, not counted"),
        ("laptop-8gb", "150.0 GiB free for models, NVMe"),
        ("laptop-8gb", "20 threads usable, 14 cores in all"),
        ("no-gpu-24gb", "GPU      none"),
    ],
)
def test_parts(name: str, line: str) -> None:
    assert line in "\n".join(parts(hardware(name)))


def test_memory_that_is_not_known_is_not_a_number() -> None:
    text = "\n".join(parts(with_gpu(hardware("rtx3090-x1"), free=None, context=GIB // 2)))
    assert "RTX 3090, its memory is unknown" in text and "CUDA context 0.5 GiB" in text


def test_a_limit_of_pinned_memory() -> None:
    text = "\n".join(parts(msgspec.structs.replace(hardware("rtx3090-x1"), pinned_limit=GIB // 2)))
    assert "pinned   0.5 GiB at most" in text


def test_speeds_that_were_measured_and_those_that_were_not() -> None:
    profile = msgspec.structs.replace(
        hardware("h200"), ram_bandwidth_16bit=None, cpu_matmul=None, cpu_matmul_16bit=None, disk_bandwidth=None
    )
    lines = [" ".join(line.split()) for line in speeds(profile, 1.7e9)]
    assert lines[1:] == [
        "GPU 0 reads its memory 4,267 GB/s",
        "from pinned RAM 54.3 GB/s",
        "from ordinary RAM 7.57 GB/s",
        "multiplies in 16 bit 713 TFLOP/s",
        "CPU reads RAM in 32 bit 225 GB/s",
        "reads RAM in 16 bit not measured",
        "multiplies in 32 bit not measured",
        "multiplies in 16 bit not measured",
        "disk reads not measured; the first large model does it",
        "a layer launches, on a GPU 0.684 ms a token",
        "launches, on the CPU 0.871 ms a token",
    ]
    assert speeds(profile, None) == ["  not measured yet: the first load does it, in a few seconds"]
