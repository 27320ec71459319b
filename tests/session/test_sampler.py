from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from fake_nvml import FakeGpu, FakeNvml
from hypothesis import given
from hypothesis import strategies as st

from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.domain.memory import GIB, Account
from llmchat.protocol import Held
from llmchat.session.hardware.footprint import Footprint
from llmchat.session.hardware.nvml import GpuMemory, Nvml
from llmchat.session.hardware.ram import Ram
from llmchat.session.hardware.sampler import FakeSampler, Sampler, gpu_account, ram_account

PID = os.getpid()
CENT = GIB // 100
HELD = Held(weights=40 * GIB, kv_cache=2 * GIB, reserved=45 * GIB)


def sampler(*gpus: FakeGpu) -> Sampler:
    return Sampler(Nvml({}, FakeNvml(*gpus)))


def test_by_the_driver_s_figure_of_the_process() -> None:
    gpu = FakeGpu("GPU-a", 80 * GIB, used=5 * GIB, reserved=GIB, processes={7: 4 * GIB})
    watch = sampler(gpu)
    gpu.used = 51 * GIB
    gpu.processes = {7: 4 * GIB, PID: 46 * GIB}
    found = watch.sample({"cuda:0": HELD}, PID).gpus[0]
    assert found.account == Account(
        weights=40 * GIB, kv_cache=2 * GIB, compute=4 * GIB, other=5 * GIB, free=28 * GIB, unaccounted=GIB
    )
    assert (found.utilization, found.temperature, found.power) == (0.37, 51.0, 123.0)


def test_by_growth_where_the_driver_lists_nobody() -> None:
    gpu = FakeGpu("GPU-a", 80 * GIB, used=5 * GIB)
    watch = sampler(gpu)
    gpu.used = 51 * GIB
    account = watch.sample({"cuda:0": HELD}, PID).gpus[0].account
    assert (account.compute, account.other, account.unaccounted) == (4 * GIB, 5 * GIB, 0)


def test_growth_that_no_context_explains_is_unaccounted() -> None:
    gpu = FakeGpu("GPU-a", 80 * GIB, processes=None)
    watch = sampler(gpu)
    gpu.used = 60 * GIB
    account = watch.sample({"cuda:0": HELD}, PID).gpus[0].account
    assert account.engine == 46.5 * GIB
    assert account.unaccounted == 13.5 * GIB


def test_the_baseline_follows_others_while_the_engine_holds_nothing() -> None:
    gpu = FakeGpu("GPU-a", 80 * GIB, used=30 * GIB)
    watch = sampler(gpu)
    gpu.used = 2 * GIB
    assert watch.sample({}, PID).gpus[0].account.other == 2 * GIB
    gpu.used = 48 * GIB
    account = watch.sample({"cuda:0": HELD}, PID).gpus[0].account
    assert (account.engine, account.other) == (46 * GIB, 2 * GIB)
    gpu.used = 20 * GIB
    assert watch.sample({}, None).gpus[0].account.other == 20 * GIB


def test_managed_memory_that_the_driver_s_figure_leaves_out() -> None:
    gpu = FakeGpu("GPU-a", 80 * GIB, processes={PID: GIB})
    watch = sampler(gpu)
    gpu.used = 44 * GIB
    account = watch.sample({"cuda:0": HELD}, PID).gpus[0].account
    assert (account.weights, account.kv_cache, account.compute) == (39 * GIB, 2 * GIB, 3 * GIB)
    assert account.used == 44 * GIB


MANAGED = Held(weights=1496 * CENT, kv_cache=5 * CENT, reserved=1515 * CENT, context=67 * CENT)
"""On an H200 a plain load of these weights had 0.86 GiB beside them: the context, and what torch reserved."""


@pytest.mark.parametrize(
    ("own", "others", "used"),
    [
        (86, {}, 1582),  # all of it is on the GPU
        (86, {7: 300}, 1882),  # beside somebody else
        (86, {7: 300}, 2182),  # and beside somebody the driver does not list
        (1582, {7: 300}, 1882),  # without managed memory
        (1582, {}, 2082),
    ],
)
def test_the_context_counts_beside_managed_weights(own: int, others: dict[int, int], used: int) -> None:
    gpu = FakeGpu("GPU-a", 80 * GIB)
    watch = sampler(gpu)
    gpu.used = used * CENT
    gpu.processes = {PID: own * CENT, **{pid: size * CENT for pid, size in others.items()}}
    account = watch.sample({"cuda:0": MANAGED}, PID).gpus[0].account
    assert (account.weights, account.kv_cache, account.compute) == (1496 * CENT, 5 * CENT, 81 * CENT)
    assert account.other == sum(others.values()) * CENT
    assert account.unaccounted == (used - 1582 - sum(others.values())) * CENT


def test_weights_that_were_paged_out_are_not_shown_on_the_gpu() -> None:
    gpu = FakeGpu("GPU-a", 80 * GIB, processes={PID: 3 * GIB})
    watch = sampler(gpu)
    gpu.used = 30 * GIB
    account = watch.sample({"cuda:0": HELD}, PID).gpus[0].account
    assert (account.weights, account.kv_cache, account.compute) == (25 * GIB, 2 * GIB, 3 * GIB)
    assert account.used == 30 * GIB


def test_a_gpu_that_tells_nothing() -> None:
    found = sampler(FakeGpu("GPU-a", 0, refuses=True)).sample({"cuda:0": Held(weights=GIB, reserved=GIB)}, PID)
    gpu = found.gpus[0]
    assert gpu.account.weights == GIB
    assert (gpu.utilization, gpu.temperature, gpu.power) == (None, None, None)


BYTES = st.integers(0, 2**40)


@given(
    BYTES,
    st.tuples(BYTES, BYTES, BYTES),
    st.tuples(BYTES, BYTES, BYTES),
    BYTES,
    st.none() | st.dictionaries(st.integers(1, 3), BYTES),
)
def test_the_kinds_always_add_up_to_the_driver_s_total(
    before: int,
    parts: tuple[int, int, int],
    held: tuple[int, int, int],
    context: int,
    listed: dict[int, int] | None,
) -> None:
    memory = GpuMemory(total=sum(parts), free=parts[0], used=parts[1], reserved=parts[2])
    account = gpu_account(
        memory,
        Held(weights=held[0], kv_cache=held[1], reserved=held[2], context=context),
        listed,
        1,
        min(before, memory.used),
    )
    assert account.total == memory.total and account.free == memory.free
    assert min(account.weights, account.kv_cache, account.compute, account.other, account.unaccounted) >= 0


@given(BYTES, BYTES, st.tuples(BYTES, BYTES, BYTES, BYTES), st.none() | BYTES, BYTES)
def test_the_ram_s_kinds_always_add_up(
    total: int, free: int, held: tuple[int, int, int, int], mapped: int | None, private: int
) -> None:
    memory = Ram(total=total, available=min(free, total))
    own = None if mapped is None else Footprint(private=private, mapped=mapped)
    said = Held(weights=held[0], kv_cache=held[1], reserved=held[2], mapped=held[3])
    account = ram_account(memory, said, own)
    assert account.total == total
    assert min(account.weights, account.kv_cache, account.compute, account.other, account.free) >= 0


def test_ram_of_an_engine() -> None:
    account = ram_account(
        Ram(total=64 * GIB, available=30 * GIB),
        Held(weights=10 * GIB, kv_cache=GIB, reserved=9 * GIB),
        Footprint(private=14 * GIB, mapped=GIB),
    )
    assert account == Account(weights=10 * GIB, kv_cache=GIB, compute=3 * GIB, other=20 * GIB, free=30 * GIB)


def test_mapped_weights_are_taken_off_what_is_free() -> None:
    account = ram_account(
        Ram(total=64 * GIB, available=60 * GIB),
        Held(weights=30 * GIB, mapped=30 * GIB),
        Footprint(private=GIB, mapped=31 * GIB),
    )
    assert (account.weights, account.compute, account.free, account.other) == (30 * GIB, GIB, 30 * GIB, 3 * GIB)


def test_pages_of_a_checkpoint_whose_weights_went_to_the_gpu_are_not_the_engine_s() -> None:
    """As ram-offload had it on an H200: 3.99 GiB of the mapped checkpoint were still in RAM."""
    account = ram_account(
        Ram(total=2000 * GIB, available=1900 * GIB),
        Held(weights=1097 * CENT, reserved=1265 * CENT),
        Footprint(private=1265 * CENT, mapped=399 * CENT),
    )
    assert (account.weights, account.compute) == (1097 * CENT, 168 * CENT)
    assert account.free == 1900 * GIB


def test_of_mapped_pages_nothing_comes_back_to_ram_that_was_free_already() -> None:
    """Free and the engine's private bytes are what a new engine finds."""
    own = Footprint(private=2 * GIB, mapped=3 * GIB)
    held = Held(weights=3 * GIB, mapped=2 * GIB)
    account = ram_account(Ram(total=16 * GIB, available=10 * GIB), held, own)
    assert account.engine == 4 * GIB
    assert account.free + account.engine == 12 * GIB


def test_this_machine_in_less_than_20_milliseconds() -> None:
    watch = Sampler()
    watch.sample({}, PID)
    started = time.perf_counter()
    for _ in range(10):
        sample = watch.sample({}, PID)
    assert (time.perf_counter() - started) / 10 < 0.02
    assert sample.ram.compute > 10 * 2**20
    assert sample.ram.total > sample.ram.free > 0


def test_an_engine_that_has_ended() -> None:
    assert Sampler().sample({}, 2**22 + 1).ram.engine == 0


PROFILE = HardwareProfile(
    gpus=(
        Gpu(index=0, name="X", total=80 * GIB, free=78 * GIB),
        Gpu(index=1, name="Y", total=24 * GIB, free=None),
    ),
    ram_total=64 * GIB,
    ram_available=60 * GIB,
    ram_limit="cgroup",
)


def test_the_fake_machine() -> None:
    held = {"cuda:0": HELD, "cpu": Held(weights=5 * GIB, reserved=6 * GIB)}
    sample = FakeSampler(PROFILE).sample(held, 1)
    first, second = sample.gpus
    assert first.account == Account(
        weights=40 * GIB, kv_cache=2 * GIB, compute=3 * GIB, other=2 * GIB, free=33 * GIB
    )
    assert first.utilization is not None and 0 < first.utilization <= 1
    assert second.account == Account(free=24 * GIB) and second.utilization == 0
    assert sample.ram == Account(weights=5 * GIB, compute=GIB, other=4 * GIB, free=54 * GIB)
    assert sample.ram_limit == "cgroup"
    again = FakeSampler(PROFILE).sample(held, 1)
    assert (again.gpus, again.ram) == (sample.gpus, sample.ram)


@pytest.mark.parametrize("reserved", [0, 500 * GIB])
def test_the_fake_machine_never_holds_more_than_it_has(reserved: int, tmp_path: Path) -> None:
    for gpu in FakeSampler(PROFILE).sample({"cuda:0": Held(weights=reserved, reserved=reserved)}, 1).gpus:
        assert gpu.account.free >= 0
        assert gpu.account.total in (80 * GIB, 24 * GIB)
