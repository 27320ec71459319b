"""What the present engine's end gives back, on machines where CPU and GPU are not two pools."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest
from msgspec.structs import replace
from session_kit import MACHINE

from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.domain.memory import GIB, Account
from llmchat.protocol import Calibrated, Ready
from llmchat.session.hardware import calibration, machine
from llmchat.session.hardware.footprint import footprint
from llmchat.session.hardware.machine import Machine
from llmchat.session.process.engine_host import EngineHost
from llmchat.session.store import Store


@dataclass
class There:
    """A machine whose probe is given, and whose engine is this very process."""

    monkeypatch: pytest.MonkeyPatch

    async def profile(self, probed: HardwareProfile, by_cuda: Gpu, held: dict[str, Account]) -> HardwareProfile:
        self.monkeypatch.setattr(machine, "_probe", lambda: probed)
        self.monkeypatch.setattr(EngineHost, "pid", os.getpid())
        engine = EngineHost(Store())
        engine._ready = Ready(versions={"torch": "2.13.0"}, gpus=(by_cuda,))
        return await Machine(engine, None, None).profile(held)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> There:
    return There(monkeypatch)


async def test_a_shared_pool_gets_all_back_on_both_sides(there: There) -> None:
    """Weights that CUDA holds on a GB10 are not in the process's resident set, and yet they are RAM."""
    total, now = 1024 * GIB, 900 * GIB
    gpu = Gpu(index=0, name="NVIDIA GB10", total=total, free=now, managed="integrated")
    probed = replace(MACHINE, gpus=(gpu,), ram_total=total, ram_available=now)
    by_cuda = replace(gpu, total=121 * GIB, free=3 * GIB)
    found = await there.profile(probed, by_cuda, {"cuda:0": Account(weights=40 * GIB)})
    own = footprint(os.getpid())
    assert own is not None
    assert found.ram_available - now == pytest.approx(40 * GIB + own.private, rel=0.01)
    assert (found.gpus[0].total, found.gpus[0].free) == (total, found.ram_available)


async def test_cuda_s_figure_from_before_the_load_needs_nothing_back(there: There) -> None:
    silent = Gpu(index=0, name="H100 MIG 3g.40gb", uuid="MIG-1", total=64 * GIB, free=None)
    by_cuda = replace(silent, total=40 * GIB, free=30 * GIB)
    probed = replace(MACHINE, gpus=(silent,))
    found = await there.profile(probed, by_cuda, {"cuda:0": Account(weights=9 * GIB)})
    assert (found.gpus[0].total, found.gpus[0].free) == (40 * GIB, 30 * GIB)


def test_what_was_free_when_the_machine_was_measured_is_long_past() -> None:
    silent = Gpu(index=0, name="G", uuid="GPU-1", total=64 * GIB, free=None)
    measured = Calibrated(
        id=1,
        gpus=(replace(silent, free=30 * GIB, read_bandwidth=1e12, pageable_bandwidth=7e9, context=1),),
        ram_bandwidth=1e10,
        disk_bandwidth=None,
        layer_overhead=1e-3,
        cpu_layer_overhead=2e-4,
    )
    seen = calibration.merged(replace(MACHINE, gpus=(silent,), cpu_layer_overhead=None), measured)
    (gpu,) = seen.gpus
    assert (gpu.free, gpu.read_bandwidth, gpu.pageable_bandwidth, gpu.context) == (None, 1e12, 7e9, 1)
    assert seen.cpu_layer_overhead == 2e-4


def test_the_lower_overhead_of_two_measurements_counts() -> None:
    one = Calibrated(
        id=1, gpus=(), ram_bandwidth=1.0, disk_bandwidth=None, layer_overhead=2.0, cpu_layer_overhead=3.0
    )
    best = calibration.better(one, replace(one, layer_overhead=1.0, cpu_layer_overhead=4.0))
    assert (best.layer_overhead, best.cpu_layer_overhead) == (1.0, 3.0)
