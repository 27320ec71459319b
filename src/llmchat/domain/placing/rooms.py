"""How many bytes of each device the engine may take: what is free, within what the person allowed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.domain.memory import GIB, cuda
from llmchat.domain.placing.fill import Space
from llmchat.domain.placing.reserve import cuda_context
from llmchat.domain.plan import Precision, Request
from llmchat.domain.speed import rates

SYSTEM_RAM = GIB // 2
"""Bytes of available RAM that are left to everybody else, so that the machine does not begin to swap."""
ENGINE_RAM = 9 * GIB // 16
"""Bytes of the engine process beside its model: 0.30 GiB measured with a CPU build of torch, 0.52 where the same
process has calibrated the machine before."""
ENGINE_RAM_CUDA = 3 * GIB // 2
"""The same with CUDA, its libraries and pinned buffers: 1.43-1.55 GiB of RSS measured on an H200 with torch 2.11
in December 2026; with offload 1.88 GiB, of which 0.54 GiB were weights. Pages of the mapped checkpoint count in
RSS while they are used, although the system can take them back."""
BNB_CUDA13_CAPABILITY = (7, 5)
"""bitsandbytes built for CUDA 13 has no kernels for older GPUs (V100 is 7.0)."""


@dataclass(frozen=True)
class Room:
    """A GPU as the planner sees it."""

    gpu: Gpu
    capacity: int
    """Bytes that the engine may take there, all kinds together."""
    context: int
    """Bytes of the CUDA context."""
    beside: Space
    """Bytes that it needs for a moment beside weights and KV cache."""
    preference: int = 0
    """Place in the person's order; 0 for all where there is none."""

    @property
    def device(self) -> str:
        return cuda(self.gpu.index)

    @cached_property
    def space(self) -> Space:
        """Bytes for weights, and for weights and KV cache while it runs; may be negative."""
        left = self.capacity - self.context
        return Space(left, left).minus(self.beside)

    def compute(self, kv: int, staging: int = 0) -> int:
        """Bytes at most beside the weights and ``kv`` bytes of KV cache, which is not there while loading, nor are
        the ``staging`` bytes through which weights pass."""
        return self.context + max(self.beside.running + staging, self.beside.loading - kv)

    @cached_property
    def bandwidth(self) -> float:
        """Bytes/s that are read there."""
        return rates.gpu(self.gpu)[0]


def gpus(hardware: HardwareProfile, request: Request, precision: Precision, beside: Space) -> tuple[Room, ...]:
    """Rooms of the GPUs that can run ``precision`` and that the person wants used, by index. ``beside``: bytes
    that each of them needs beside weights, KV cache and the CUDA context."""
    wanted = request.gpus or tuple(gpu.index for gpu in hardware.gpus)
    return tuple(
        Room(
            gpu=gpu,
            capacity=_capacity(gpu, hardware, request),
            context=cuda_context(gpu),
            beside=beside,
            preference=request.gpus.index(gpu.index) if request.gpus else 0,
        )
        for gpu in sorted(hardware.gpus, key=lambda gpu: gpu.index)
        if gpu.index in wanted and runs(gpu, hardware, precision)
    )


def by_speed(found: Iterable[Room]) -> list[Room]:
    """In the order in which they are filled: as the person prefers them, the fastest first. The room they have is
    no matter here: an order that changed with it would make a refusal's shortfall untrue."""
    return sorted(found, key=lambda room: (room.preference, -room.bandwidth, room.gpu.index))


def best(found: Iterable[Room]) -> list[Room]:
    """In the order in which they are chosen: of equals the roomiest, so that few will do."""
    return sorted(found, key=lambda room: (room.preference, -room.bandwidth, -room.space.running, room.gpu.index))


def runs(gpu: Gpu, hardware: HardwareProfile, precision: Precision) -> bool:
    """Whether ``gpu`` has kernels for ``precision``; a GPU of unknown capability is trusted."""
    cuda13 = (hardware.software.torch_cuda or "").startswith("13")
    if precision is Precision.PUBLISHED or not cuda13 or gpu.capability is None:
        return True
    return gpu.capability >= BNB_CUDA13_CAPABILITY


def _capacity(gpu: Gpu, hardware: HardwareProfile, request: Request) -> int:
    """Free bytes (all, where the driver does not tell), the person's budget, and for a GPU that shares the RAM
    what is left of that."""
    limits = [gpu.total if gpu.free is None else gpu.free]
    if gpu.index in request.gpu_budget:
        limits.append(request.gpu_budget[gpu.index])
    if gpu.managed == "integrated":
        limits.append(ram(hardware, request))
    return min(limits)


def ram(hardware: HardwareProfile, request: Request) -> int:
    """Bytes of RAM for weights, KV cache and activations: the engine process itself is taken off already."""
    capacity = hardware.ram_available - SYSTEM_RAM
    if request.ram_budget is not None:
        capacity = min(capacity, request.ram_budget)
    return capacity - engine_ram(hardware)


def engine_ram(hardware: HardwareProfile) -> int:
    return ENGINE_RAM_CUDA if hardware.gpus else ENGINE_RAM


def other(gpu: Gpu) -> int:
    """Bytes that other processes hold; 0 where the driver does not tell."""
    return 0 if gpu.free is None else max(0, gpu.total - gpu.free)
