"""What a machine does in a second: measured figures where there are any, else assumed ones, and said to be."""

from __future__ import annotations

from collections.abc import Iterator

from llmchat.domain.hardware import DiskKind, Gpu, HardwareProfile
from llmchat.domain.memory import CPU, DISK, cuda
from llmchat.domain.plan import Kv, Precision
from llmchat.domain.speed import datasheet
from llmchat.domain.speed.cpu import RAM_BANDWIDTH

PAGEABLE_BANDWIDTH = 7e9
"""Bytes/s of accelerate's copies from pageable RAM to a GPU, measured on an H200 (pinned: 55 GB/s)."""
PINNED_BANDWIDTH = 24e9
"""Bytes/s from pinned RAM over PCIe 4.0 x16; assumed where nothing was measured."""
C2C_BANDWIDTH = 375e9
"""Bytes/s that a GPU reads from Grace's memory over NVLink-C2C, measured on a GH200."""
C2C_COPY_SHARE = 0.5
"""Of that, what blocking copies of single tensors reach: an estimate."""
DISK_BANDWIDTH: dict[DiskKind, float] = {
    "nvme": 2.5e9,
    "ssd": 0.5e9,
    "hdd": 0.15e9,
    "network": 0.1e9,
    "memory": 5e9,
}
"""Bytes/s of sequential reads, assumed where nothing was measured: PCIe 3.0 NVMe, SATA (6 Gb/s), a magnetic disk's
outer tracks, Gigabit Ethernet, a RAM disk."""
UNKNOWN_DISK = 0.5e9
GPU_LAYER_OVERHEAD = 1.04e-3
"""Seconds to launch one decoder layer's kernels: 30 tokens/s over 32 layers, launch-bound, measured on an H200."""
CALIBRATED_SHARE = 0.82
"""Of the speed that the calibrated launches allow, what the engine reaches on a GPU: the median of five loads of
an 8-billion Llama on an H200. They gave 0.62 to 1.30 of it: on that host the same loop runs at 25 or at 50
tokens/s from one minute to the next, and calibration is a moment, too."""
CPU_LAYER_OVERHEAD = 0.49e-3
"""Seconds a layer on a CPU: 14.6 ms over 30 layers, measured on 2 cores."""
BNB_LAUNCHES = {Precision.INT8: 4.3, Precision.INT4: 1.5}
"""bitsandbytes launches more kernels a layer. Measured for an 8-billion Llama on an H200 (torch 2.11, bitsandbytes
0.50, 2026-12-01), against what calibration allowed then: 0.19 in 8 bit, 0.55 in nf4, 0.82 as published."""
BNB_CPU_LAUNCHES = 1.5
"""The same on a CPU, where a layer's calls cost little beside its arithmetic. An estimate."""
KV_LAUNCHES: dict[Kv, float] = {"device": 1.0, "8bit": 1.2, "ram": 1.4}
"""More kernels a layer for a KV cache that is quantized or fetched. Measured as above, two loads each: 0.61 and
0.93, 0.48 and 0.70. So an estimate."""
KV_TRAFFIC: dict[Kv, float] = {"device": 1.0, "8bit": 3.5, "ram": 2.0}
"""Of the 16-bit KV cache's bytes, what a decode step moves in the memory of the GPU: attention reads all of it; in
8 bit it grows by concatenation and is expanded to 16 before, from RAM it is written first. Estimates, by count."""
MATMUL_SHARE = 0.45
"""Of the rate of a large product of 512 rows, what the prefill of a whole model reaches on a GPU: an estimate from
the 273 TFLOP/s of an H200 (see datasheet.COMPUTE_SHARE) and the some 600 that such a product reaches there."""


def gpu(gpu: Gpu) -> tuple[float, float]:
    """Bytes/s read and FLOP/s in prefill."""
    sold = datasheet.rating(gpu.name)
    bandwidth = gpu.read_bandwidth or sold.bandwidth * datasheet.READ_SHARE
    compute = sold.compute * datasheet.COMPUTE_SHARE if gpu.matmul is None else gpu.matmul * MATMUL_SHARE
    return bandwidth, compute


def pinned(gpu: Gpu) -> float:
    """Bytes/s from pinned RAM."""
    return gpu.link_bandwidth or (C2C_BANDWIDTH if gpu.managed == "coherent" else PINNED_BANDWIDTH)


def pageable(gpu: Gpu) -> float:
    """Bytes/s from ordinary RAM, a tensor at a time."""
    if gpu.pageable_bandwidth is not None:
        return gpu.pageable_bandwidth
    usual = C2C_BANDWIDTH * C2C_COPY_SHARE if gpu.managed == "coherent" else PAGEABLE_BANDWIDTH
    return min(pinned(gpu), usual)


def disk(hardware: HardwareProfile) -> float:
    return hardware.disk_bandwidth or DISK_BANDWIDTH.get(hardware.disk_kind, UNKNOWN_DISK)


def layer_overhead(hardware: HardwareProfile, on_gpu: bool) -> float:
    """Seconds of launches and Python a layer, of weights as published."""
    if on_gpu:
        measured = hardware.layer_overhead
        return GPU_LAYER_OVERHEAD if measured is None else measured / CALIBRATED_SHARE
    return (
        hardware.cpu_layer_overhead or (None if hardware.gpus else hardware.layer_overhead) or CPU_LAYER_OVERHEAD
    )


def launches(hardware: HardwareProfile, precision: Precision, kv: Kv, on_gpu: bool) -> float:
    """Seconds of launches and Python a layer."""
    slower = (BNB_LAUNCHES if on_gpu else dict.fromkeys(BNB_LAUNCHES, BNB_CPU_LAUNCHES)).get(precision, 1.0)
    return layer_overhead(hardware, on_gpu) * (slower + KV_LAUNCHES[kv] - 1)


def assumed(hardware: HardwareProfile, devices: set[str], on_gpu: bool) -> Iterator[str]:
    """What no measurement stands behind, in words, of a plan that uses ``devices``."""
    for card in hardware.gpus:
        if cuda(card.index) in devices and card.read_bandwidth is None:
            known = datasheet.rating(card.name) is not datasheet.UNKNOWN
            source = f"{datasheet.READ_SHARE:.0%} of the datasheet of {card.name}" if known else "an unknown GPU's"
            yield f"assumed: GPU {card.index} reads {gpu(card)[0] / 1e9:,.0f} GB/s ({source})"
    if CPU in devices and not on_gpu and hardware.ram_bandwidth is None:
        yield f"assumed: RAM reads {RAM_BANDWIDTH / 1e9:.1f} GB/s (a desktop machine's)"
    if not on_gpu and hardware.cpu_matmul_16bit is None:
        yield "assumed: the CPU has no 16-bit instructions, and prefills as a 2-core machine did, per core"
    if DISK in devices and hardware.disk_bandwidth is None:
        yield f"assumed: the disk reads {disk(hardware) / 1e9:.2g} GB/s ({DISKS[hardware.disk_kind]})"
    if (hardware.layer_overhead if on_gpu else hardware.cpu_layer_overhead or hardware.layer_overhead) is None:
        yield f"assumed: {layer_overhead(hardware, on_gpu) * 1e3:.2f} ms of launches a layer"


DISKS: dict[DiskKind, str] = {
    "nvme": "an NVMe disk's",
    "ssd": "a SATA solid-state disk's",
    "hdd": "a magnetic disk's",
    "network": "a network disk's",
    "memory": "a RAM disk's",
    "": "a SATA solid-state disk's",
}
