"""Predicted speed of a plan: decode tokens/s and time to first token, by arithmetic from bytes and bandwidths.

A GPU launches its kernels ahead of running them, so that a decode step takes the longer of the two. What lies on
several devices runs in turn: a sum. Accelerate copies an offloaded module whole, from pageable RAM, and waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from llmchat.domain import datasheet, precision
from llmchat.domain.cpu_speed import RAM_BANDWIDTH, CpuRates
from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.domain.memory import CPU, DISK, cuda, cuda_index
from llmchat.domain.model import ModelFacts, Module
from llmchat.domain.plan import Precision

PROMPT = 512
"""Tokens of the prompt for which the time to first token is given, and after which decoding is timed."""
PAGEABLE_BANDWIDTH = 7e9
"""Bytes/s of accelerate's copies from pageable RAM to a GPU, measured on an H200 (pinned: 55 GB/s)."""
PAGING_BANDWIDTH = 7e9
"""Bytes/s at which managed memory on PCIe is paged in by faults: an estimate, taken as pageable copies."""
C2C_BANDWIDTH = 375e9
"""Bytes/s that a GPU reads from Grace's memory over NVLink-C2C, measured on a GH200."""
DISK_BANDWIDTH = 0.5e9
"""Bytes/s of a SATA solid-state disk (6 Gb/s); assumed where nothing was measured."""
GPU_LAYER_OVERHEAD = 1.04e-3
"""Seconds to launch one decoder layer's kernels: 30 tokens/s over 32 layers, launch-bound, measured on an H200."""
CPU_LAYER_OVERHEAD = 0.49e-3
"""Seconds a layer on a CPU: 14.6 ms over 30 layers, measured on 2 cores."""
BNB_LAUNCHES = {Precision.INT8: 4.5, Precision.INT4: 1.4}
"""bitsandbytes launches more kernels a layer. Measured for an 8-billion Llama on an H200 (torch 2.11, bitsandbytes
0.50, 2026-12-01): 6.7 tokens/s in 8 bit and 21.8 in nf4 where the weights as published gave 28.6."""
MATMUL_SHARE = 0.45
"""Of the rate of a large product of 512 rows, what the prefill of a whole model reaches on a GPU: an estimate from
the 273 TFLOP/s of an H200 (see datasheet.COMPUTE_SHARE) and the some 600 that such a product reaches there."""

BNB_CPU_LAUNCHES = 1.5
"""The same on a CPU, where a layer's calls cost little beside its arithmetic. An estimate."""


@dataclass(frozen=True)
class Speed:
    tokens_per_second: float
    time_to_first_token: float
    """Seconds for PROMPT tokens."""
    assumed: tuple[str, ...]
    """What no measurement stands behind, in words."""


@dataclass(frozen=True)
class Overflow:
    """Bytes of weights in managed memory that do not fit on their GPU."""

    gpu: Gpu
    bytes: int
    weights: int
    """Of the whole model, the overflow included."""

    def seconds(self, bandwidth: float) -> float:
        """By which a pass over the weights takes longer than at the GPU's own ``bandwidth``. On PCIe the scan
        evicts what it needs next: everything is paged in anew each time."""
        if self.bytes == 0:
            return 0.0
        if self.gpu.managed == "coherent":
            return max(0.0, self.bytes / C2C_BANDWIDTH - self.bytes / bandwidth)
        return self.weights / min(self.gpu.link_bandwidth or PAGING_BANDWIDTH, PAGING_BANDWIDTH)


@dataclass
class _Pass:
    """Seconds of one forward pass, by what they are spent on."""

    gpu: float = 0.0
    copies: float = 0.0
    cpu: float = 0.0

    def total(self, launches: float, on_gpu: bool) -> float:
        return (max(self.gpu, launches) if on_gpu else self.cpu + launches) + self.copies


def predict(
    model: ModelFacts,
    hardware: HardwareProfile,
    held: Precision,
    placement: Mapping[str, str],
    main_device: str,
    overflow: Overflow | None = None,
) -> Speed:
    """Speed of ``placement``; modules on ``cpu`` or ``disk`` are executed on ``main_device``."""
    rates = _Rates(model, hardware, held)
    decode, prefill = _Pass(), _Pass()
    for module in model.modules:
        _add(module, placement[module.name], main_device, rates, decode, prefill)
    on_gpu = main_device != CPU
    launches = len(model.layers) * rates.overhead(on_gpu)
    if overflow:
        extra = overflow.seconds(rates.gpus[main_device][1])
        decode.gpu += extra
        prefill.gpu += extra
    return Speed(
        tokens_per_second=1 / decode.total(launches, on_gpu),
        time_to_first_token=prefill.total(launches, on_gpu),
        assumed=tuple(_assumed(hardware, set(placement.values()) | {main_device}, on_gpu)),
    )


class _Rates:
    def __init__(self, model: ModelFacts, hardware: HardwareProfile, held: Precision) -> None:
        self.model, self.hardware, self.held = model, hardware, held
        self.item = 4 if model.dtype == "float32" else 2
        self.gpus = {cuda(gpu.index): (gpu, *_gpu_rates(gpu)) for gpu in hardware.gpus}
        self.cpu = CpuRates(model, hardware, held, PROMPT)
        self.disk = hardware.disk_bandwidth or DISK_BANDWIDTH

    def overhead(self, on_gpu: bool) -> float:
        """Seconds of launches a layer."""
        if self.held is Precision.PUBLISHED:
            return _overhead(self.hardware)
        return _overhead(self.hardware) * (BNB_LAUNCHES[self.held] if on_gpu else BNB_CPU_LAUNCHES)

    def link(self, device: str) -> float:
        return min(self.gpus[device][0].link_bandwidth or PAGEABLE_BANDWIDTH, PAGEABLE_BANDWIDTH)

    def weights(self, module: Module) -> int:
        return precision.weight_bytes(module, self.held, self.model.hidden_size)

    def active(self, module: Module) -> int:
        return precision.active_bytes(module, self.held, self.model.hidden_size)

    def operations(self, module: Module) -> float:
        """FLOPs of PROMPT tokens; the head sees the last token only."""
        return 2 * module.active_bytes / self.item * (PROMPT if module.kind == "layer" else 1)


def _add(module: Module, device: str, main: str, rates: _Rates, decode: _Pass, prefill: _Pass) -> None:
    kv = module.cache.size(PROMPT)
    executed_on = device if cuda_index(device) is not None else main
    if executed_on == CPU:
        read = rates.cpu.read(module, kv)
        decode.cpu += read
        prefill.cpu += max(read, rates.cpu.multiply(module, rates.operations(module)))
    else:
        _, bandwidth, compute = rates.gpus[executed_on]
        decode.gpu += (rates.active(module) + kv) / bandwidth
        touched = rates.weights(module) if module.kind == "layer" else rates.active(module)
        prefill.gpu += max(touched / bandwidth, rates.operations(module) / compute)
    copy = 0.0
    if device in (CPU, DISK) and main != CPU:
        copy += rates.weights(module) / rates.link(main)
    if device == DISK:
        copy += rates.weights(module) / rates.disk
    decode.copies += copy
    prefill.copies += copy


def _gpu_rates(gpu: Gpu) -> tuple[float, float]:
    """Bytes/s read and FLOP/s in prefill."""
    sold = datasheet.rating(gpu.name)
    bandwidth = gpu.read_bandwidth or sold.bandwidth * datasheet.READ_SHARE
    compute = sold.compute * datasheet.COMPUTE_SHARE if gpu.matmul is None else gpu.matmul * MATMUL_SHARE
    return bandwidth, compute


def _overhead(hardware: HardwareProfile) -> float:
    """Seconds a layer: one figure for the machine, of its fastest device, as calibration gives it."""
    return hardware.layer_overhead or (GPU_LAYER_OVERHEAD if hardware.gpus else CPU_LAYER_OVERHEAD)


def _assumed(hardware: HardwareProfile, devices: set[str], on_gpu: bool) -> Iterator[str]:
    for gpu in hardware.gpus:
        if cuda(gpu.index) in devices and gpu.read_bandwidth is None:
            known = datasheet.rating(gpu.name) is not datasheet.UNKNOWN
            source = f"85 % of the datasheet of {gpu.name}" if known else "an unknown GPU's"
            yield f"assumed: GPU {gpu.index} reads {_gpu_rates(gpu)[0] / 1e9:,.0f} GB/s ({source})"
    if CPU in devices and not on_gpu and hardware.ram_bandwidth is None:
        yield f"assumed: RAM reads {RAM_BANDWIDTH / 1e9:.1f} GB/s (a desktop machine's)"
    if not on_gpu and hardware.cpu_matmul_16bit is None:
        yield "assumed: the CPU has no 16-bit instructions, and prefills as a 2-core machine did, per core"
    if DISK in devices and hardware.disk_bandwidth is None:
        yield f"assumed: the disk reads {DISK_BANDWIDTH / 1e9:.1f} GB/s (a SATA solid-state disk's)"
    if hardware.layer_overhead is None:
        yield f"assumed: {_overhead(hardware) * 1e3:.2f} ms of launches a layer"
