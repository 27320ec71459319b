"""Predicted speed of a plan: decode tokens/s and time to first token, by arithmetic from bytes and bandwidths.

A GPU launches its kernels ahead of running them, so that a decode step takes the longer of the two. What lies on
several devices runs in turn: a sum. Accelerate copies an offloaded module whole, from pageable RAM, and waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmchat.domain import kv, precision
from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.domain.memory import CPU, DISK, cuda, cuda_index
from llmchat.domain.model import ModelFacts, Module
from llmchat.domain.plan import Kv, Precision
from llmchat.domain.speed import rates
from llmchat.domain.speed.cpu import CpuRates

PROMPT = 512
"""Tokens of the prompt for which the time to first token is given, and after which decoding is timed."""
PAGING_BANDWIDTH = 7e9
"""Bytes/s at which managed memory on PCIe is paged in by faults: an estimate, taken as pageable copies."""


@dataclass(frozen=True)
class Speed:
    tokens_per_second: float
    """After PROMPT tokens."""
    full_tokens_per_second: float
    """With the context full."""
    time_to_first_token: float
    """Seconds for PROMPT tokens."""
    assumed: tuple[str, ...]
    """What no measurement stands behind, in words."""


@dataclass(frozen=True)
class Holding:
    """How a model is held: what its speed follows from."""

    model: ModelFacts
    hardware: HardwareProfile
    precision: Precision
    placement: Mapping[str, str]
    main_device: str
    """Modules on ``cpu`` or ``disk`` are executed there."""
    context: int
    kv: Kv = "device"
    overflow: Overflow | None = None


@dataclass(frozen=True)
class Overflow:
    """Bytes of weights in managed memory that do not fit on their GPU."""

    gpu: Gpu
    bytes: int
    weights: int
    """Of the whole model, the overflow included."""

    def seconds(self, bandwidth: float, share: float) -> float:
        """By which a pass that touches ``share`` of the weights (of experts those that are chosen) takes longer
        than at the GPU's own ``bandwidth``. On PCIe the scan evicts what it needs next: all is paged in anew."""
        if self.bytes == 0:
            return 0.0
        if self.gpu.managed == "coherent":
            return share * max(0.0, self.bytes / rates.C2C_BANDWIDTH - self.bytes / bandwidth)
        return share * self.weights / min(self.gpu.link_bandwidth or PAGING_BANDWIDTH, PAGING_BANDWIDTH)


@dataclass
class _Pass:
    """Seconds of one forward pass, by what they are spent on."""

    gpu: float = 0.0
    copies: float = 0.0
    cpu: float = 0.0

    def total(self, launches: float, on_gpu: bool) -> float:
        return (max(self.gpu, launches) if on_gpu else self.cpu + launches) + self.copies


def predict(held: Holding) -> Speed:
    on_gpu = held.main_device != CPU
    launches = len(held.model.layers) * rates.launches(held.hardware, held.precision, held.kv, on_gpu)
    passes = _Passes(held)
    return Speed(
        tokens_per_second=1 / passes.seconds(launches, PROMPT),
        full_tokens_per_second=1 / passes.seconds(launches, max(PROMPT, held.context)),
        time_to_first_token=passes.seconds(launches, PROMPT, prefill=True),
        assumed=tuple(rates.assumed(held.hardware, set(held.placement.values()) | {held.main_device}, on_gpu)),
    )


def _alike(held: Holding) -> list[tuple[Module, str, int]]:
    """Modules that differ in nothing but their name, on one device: one of them, the device, and how many."""
    groups: dict[tuple[object, ...], list[Module]] = {}
    for m in held.model.modules:
        cost = (m.kind, m.bytes, m.active_bytes, m.linear_params, m.linear_bytes, m.cache)
        groups.setdefault((held.placement[m.name], *cost), []).append(m)
    return [(same[0], str(device), len(same)) for (device, *_), same in groups.items()]


class _Passes:
    """Forward passes of one model as it is held."""

    def __init__(self, held: Holding) -> None:
        self.held = held
        self.item = 4 if held.model.dtype == "float32" else 2
        self.gpus = {cuda(gpu.index): (gpu, *rates.gpu(gpu)) for gpu in held.hardware.gpus}
        self.cpu = CpuRates(held.model, held.hardware, held.precision, PROMPT)
        self.disk = rates.disk(held.hardware)
        self.on_gpu = held.main_device != CPU
        self.alike = _alike(held)
        touched = sum(min(module.bytes, module.active_bytes) for module in held.model.modules)
        self.active_share = touched / max(1, held.model.weight_bytes)
        """Of the weights, what one token reads."""

    def seconds(self, launches: float, context: int, prefill: bool = False) -> float:
        """Of one pass: of a token after ``context`` others, or of a prompt of PROMPT tokens."""
        spent = _Pass()
        for module, device, count in self.alike:
            self._add(module, device, count, prefill, context, spent)
        if self.held.overflow:
            bandwidth = self.gpus[self.held.main_device][1]
            spent.gpu += self.held.overflow.seconds(bandwidth, 1.0 if prefill else self.active_share)
        return spent.total(launches, self.on_gpu)

    def _add(self, module: Module, device: str, count: int, prefill: bool, context: int, spent: _Pass) -> None:
        """``count`` such modules on ``device``."""
        runs_on = device if cuda_index(device) is not None else self.held.main_device
        if runs_on == CPU:
            spent.cpu += count * self._on_cpu(module, prefill, context)
        else:
            gpu, bandwidth, compute = self.gpus[runs_on]
            spent.gpu += count * self._on_gpu(module, bandwidth, compute, prefill, context)
            if self.held.kv == "ram" and not prefill and kv.grows(module.cache):
                spent.copies += count * module.cache.size(context) / rates.pinned(gpu)
        spent.copies += count * self._copied(module, device)

    def _on_cpu(self, module: Module, prefill: bool, context: int) -> float:
        read = self.cpu.read(module)
        if prefill:
            return max(read, self.cpu.multiply(module, self._operations(module)))
        return read + self.cpu.attend(module.cache, context)

    def _on_gpu(self, module: Module, bandwidth: float, compute: float, prefill: bool, context: int) -> float:
        if not prefill:
            traffic = module.cache.size(context) * rates.KV_TRAFFIC[self.held.kv]
            return (self._active(module) + traffic) / bandwidth
        touched = self._weights(module) if module.kind == "layer" else self._active(module)
        return max(touched / bandwidth, self._operations(module) / compute)

    def _copied(self, module: Module, device: str) -> float:
        """Seconds in which an offloaded module is brought to where it runs. One that never runs stays away."""
        if module.active_bytes == 0:
            return 0.0
        seconds = 0.0
        if device in (CPU, DISK) and self.on_gpu:
            seconds += self._weights(module) / rates.pageable(self.gpus[self.held.main_device][0])
        if device == DISK:
            seconds += self._weights(module) / self.disk
        return seconds

    def _weights(self, module: Module) -> int:
        return precision.weight_bytes(module, self.held.precision, self.held.model.hidden_size)

    def _active(self, module: Module) -> int:
        return precision.active_bytes(module, self.held.precision, self.held.model.hidden_size)

    def _operations(self, module: Module) -> float:
        """FLOPs of PROMPT tokens; the head sees the last token only."""
        return 2 * module.active_bytes / self.item * (PROMPT if module.kind == "layer" else 1)
