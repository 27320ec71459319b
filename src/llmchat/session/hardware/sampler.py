"""Every GPU and the RAM at one moment: what driver and system say, split up by what the engine says it holds."""

from __future__ import annotations

import time
from collections.abc import Mapping

from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.domain.memory import CPU, GIB, Account, cuda
from llmchat.protocol import Held
from llmchat.session.hardware.footprint import Footprint, footprint
from llmchat.session.hardware.nvml import Device, GpuMemory, Nvml
from llmchat.session.hardware.ram import Ram, gpu_nodes, ram
from llmchat.session.state import GpuSample, MemorySample

__all__ = ["FakeSampler", "Sampler"]

NOTHING = Held()
MOST_CONTEXT = 3 * GIB // 2
"""Bytes that a CUDA context with its libraries may take; growth beyond that is somebody else's."""


class Sampler:
    """A sample takes a few milliseconds. To be used from one thread."""

    def __init__(self, nvml: Nvml | None = None) -> None:
        import psutil

        self._psutil = psutil
        self._nvml = nvml or Nvml()
        self._gpu_nodes = gpu_nodes(self._nvml)
        self._before: dict[int, int] = {}
        psutil.cpu_percent()  # the first call only starts the clock
        self.baseline()

    def baseline(self) -> None:
        """Take what is in use on every GPU now as others'; to be called while the engine holds nothing."""
        for device in self._nvml.devices:
            memory = self._nvml.memory(device)
            if memory:
                self._before[device.index] = memory.used

    def sample(self, held: Mapping[str, Held], engine_pid: int | None) -> MemorySample:
        """``held``: what the engine's last heartbeat said, by device."""
        if engine_pid is None:
            self.baseline()
        memory = ram(without=self._gpu_nodes)
        return MemorySample(
            time=time.monotonic(),
            gpus=tuple(
                self._gpu(device, held.get(cuda(device.index), NOTHING), engine_pid, memory)
                for device in self._nvml.devices
            ),
            ram=ram_account(memory, held.get(CPU, NOTHING), footprint(engine_pid)),
            ram_limit=memory.limit,
            engine_pid=engine_pid,
            cpu_utilization=self._psutil.cpu_percent() / 100,
        )

    def _gpu(self, device: Device, held: Held, engine_pid: int | None, ram: Ram) -> GpuSample:
        nvml, memory = self._nvml, self._nvml.memory(device)
        if memory is None:
            account = unknown_account(ram, held)
        else:
            processes = nvml.processes(device) if engine_pid is not None else None
            before = min(self._before.get(device.index, memory.used), memory.used)
            if not held.reserved:
                self._before[device.index] = before
            account = gpu_account(memory, held, processes, engine_pid, before)
        return GpuSample(
            index=device.index,
            name=device.name,
            account=account,
            utilization=nvml.utilization(device),
            temperature=nvml.temperature(device),
            power=nvml.power(device),
        )


def gpu_account(
    memory: GpuMemory, held: Held, processes: Mapping[int, int] | None, engine_pid: int | None, before: int
) -> Account:
    """One GPU's bytes by kind.

    ``processes``: bytes by process id as the driver tells them, None where it does not; in a container it may list
    nobody. ``before``: bytes in use when the engine held nothing. What the engine reserved and is not here are
    weights: pages of managed memory, which the driver has moved to RAM.
    """
    listed = dict(processes or {})
    own = listed.pop(engine_pid, None) if engine_pid is not None else None
    if own is None:
        engine = _by_growth(memory, held, before)
    else:
        engine = _by_driver(memory, held, own, sum(listed.values()))
    weights = min(max(0, held.weights - max(0, held.reserved - engine)), engine)
    kv_cache = min(held.kv_cache, engine - weights)
    rest = memory.used - engine
    other = min(rest, max(sum(listed.values()), before))
    return Account(
        weights=weights,
        kv_cache=kv_cache,
        compute=engine - weights - kv_cache,
        other=other,
        free=memory.free,
        unaccounted=rest - other + memory.reserved,
    )


def _by_driver(memory: GpuMemory, held: Held, own: int, others: int) -> int:
    """Bytes of the engine where the driver tells those of its process (``own``) and of the ``others``.

    The figure of a process leaves managed memory out, that of the device does not: what is in use beyond all
    processes is the engine's, as far as it says that it holds more than its figure.
    """
    says = max(held.reserved, held.weights + held.kv_cache)
    says += held.context if held.reserved else 0
    beyond = max(0, memory.used - own - others)
    return min(max(own, min(says, own + beyond)), memory.used)


def _by_growth(memory: GpuMemory, held: Held, before: int) -> int:
    """Bytes of the engine where the driver does not tell those of its process: what it says, and of what is in use
    since then as much as a CUDA context takes."""
    grown = max(0, memory.used - before - held.reserved)
    own = held.reserved + min(grown, MOST_CONTEXT) if held.reserved else 0
    return min(max(own, held.weights + held.kv_cache), memory.used)


def unknown_account(ram: Ram, held: Held) -> Account:
    """Of a GPU that shares the RAM, where the driver tells nothing: by the engine's and the system's word."""
    compute = max(0, held.reserved - held.weights - held.kv_cache)
    engine = held.weights + held.kv_cache + compute
    return Account(
        weights=held.weights,
        kv_cache=held.kv_cache,
        compute=compute,
        other=max(0, ram.total - ram.available - engine),
        free=ram.available,
    )


def ram_account(memory: Ram, held: Held, own: Footprint | None) -> Account:
    """The RAM's bytes by kind; ``own`` is the engine process's, None where only ``held`` knows.

    Pages of mapped files the system counts as available. Those in which the engine's weights lie are shown as its
    own here, and taken off what is free, so that nothing is counted twice; others, such as libraries and a
    checkpoint whose weights went to a GPU, stay what the system calls them.
    """
    total = own.private + min(own.mapped, held.mapped) if own else held.reserved
    compute = max(0, total - held.weights - held.kv_cache)
    engine = min(held.weights + held.kv_cache + compute, memory.total)
    weights = min(held.weights, engine)
    kv_cache = min(held.kv_cache, engine - weights)
    mapped = max(0, engine - own.private) if own else 0
    free = max(0, min(memory.available - mapped, memory.total - engine))
    return Account(
        weights=weights,
        kv_cache=kv_cache,
        compute=engine - weights - kv_cache,
        other=memory.total - engine - free,
        free=free,
    )


class FakeSampler:
    """The same for the fake engine: a machine on paper, on which the fake engine's bytes lie."""

    def __init__(self, profile: HardwareProfile) -> None:
        self._profile = profile

    def baseline(self) -> None:
        """Nothing to do: what others hold is in the profile."""

    def sample(self, held: Mapping[str, Held], engine_pid: int | None) -> MemorySample:
        profile = self._profile
        memory = Ram(total=profile.ram_total, available=profile.ram_available)
        own = held.get(CPU, NOTHING)
        left = max(0, memory.available - max(own.reserved, own.weights + own.kv_cache))
        on_gpus = [held.get(cuda(gpu.index), NOTHING) for gpu in profile.gpus]
        weights = max(1, sum(gpu.weights for gpu in on_gpus))
        return MemorySample(
            time=time.monotonic(),
            gpus=tuple(
                _fake_gpu(gpu, on_gpu, on_gpu.weights / weights)
                for gpu, on_gpu in zip(profile.gpus, on_gpus, strict=True)
            ),
            ram=ram_account(Ram(total=memory.total, available=left), own, None),
            ram_limit=profile.ram_limit,
            engine_pid=engine_pid,
            cpu_utilization=0.02 + 0.5 * min(1.0, own.weights / memory.total),
        )


def _fake_gpu(gpu: Gpu, held: Held, share: float) -> GpuSample:
    """``share``: of all the weights on GPUs. They answer in turn, so that it is also the time each is busy."""
    before = gpu.total - (gpu.total if gpu.free is None else gpu.free)
    own = min(max(held.reserved, held.weights + held.kv_cache), gpu.total - before)
    memory = GpuMemory(total=gpu.total, free=gpu.total - before - own, used=before + own)
    busy = 0.97 * share
    return GpuSample(
        index=gpu.index,
        name=gpu.name,
        account=gpu_account(memory, held, {}, None, before),
        utilization=busy,
        temperature=34 + 40 * busy,
        power=72 + 220 * busy,
    )
