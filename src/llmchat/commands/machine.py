"""A machine in lines for people: what it has, and how fast that was measured to be."""

from __future__ import annotations

import time
from collections.abc import Iterator

from llmchat.domain.hardware import DiskKind, Gpu, HardwareProfile, Managed
from llmchat.domain.memory import gib

CLASSES: dict[Managed, str] = {
    "none": "no paging between RAM and GPU",
    "paged": "paged over PCIe",
    "host-tables": "paged over PCIe, reads the CPU's page tables",
    "coherent": "coherent with the RAM",
    "integrated": "shares the RAM",
}
DISKS: dict[DiskKind, str] = {
    "nvme": "NVMe",
    "ssd": "SSD",
    "hdd": "magnetic",
    "network": "over the network",
    "memory": "in RAM",
    "": "kind unknown",
}
LIMITS = {"cgroup": "the control group (container) sets the limit"}
UNKNOWN = "not measured"


def parts(hardware: HardwareProfile) -> list[str]:
    """What the machine has."""
    software = hardware.software
    lines = [line for gpu in hardware.gpus for line in _gpu(gpu)] or [_row("GPU", "none")]
    if hardware.gpus or hardware.driver:
        newest = f", CUDA up to {hardware.driver_cuda}" if hardware.driver_cuda else ""
        built = f"built for CUDA {software.torch_cuda}" if software.torch_cuda else "a CPU build"
        torch = f"torch is {built}" if software.torch else "torch is not installed"
        lines.append(_row("driver", f"{hardware.driver or 'unknown'}{newest}; {torch}"))
    bound = f"; {LIMITS.get(hardware.ram_limit, hardware.ram_limit)}" if hardware.ram_limit else ""
    lines.append(_row("RAM", f"{gib(hardware.ram_available)} of {gib(hardware.ram_total)} available{bound}"))
    lines.append(_row("swap", f"{gib(hardware.swap_total)}, not counted" if hardware.swap_total else "none"))
    if hardware.gpus:
        most = (
            "as much as there is RAM" if hardware.pinned_limit is None else f"{gib(hardware.pinned_limit)} at most"
        )
        lines.append(_row("pinned", most))
    free = "unknown" if hardware.disk_free is None else gib(hardware.disk_free)
    lines.append(_row("disk", f"{free} free for models, {DISKS[hardware.disk_kind]}"))
    cores = f", {hardware.physical_cores} cores in all" if hardware.physical_cores else ""
    lines.append(_row("CPU", f"{hardware.cpu or 'unknown'}, {hardware.cores} threads usable{cores}"))
    return [*lines, *(f"  {note}" for note in hardware.notes)]


def speeds(hardware: HardwareProfile, measured_at: float | None) -> list[str]:
    """What was measured. ``measured_at``: Unix seconds; None: not yet."""
    if measured_at is None:
        return ["  not measured yet: the first load does it, in a few seconds"]
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(measured_at))
    return [f"  on {when}", *(_row(name, f"{what:26} {figure}") for name, what, figure in _speeds(hardware))]


def _speeds(hardware: HardwareProfile) -> Iterator[tuple[str, str, str]]:
    for gpu in hardware.gpus:
        yield f"GPU {gpu.index}", "reads its memory", _figure(gpu.read_bandwidth, 1e9, "GB/s")
        yield "", "from pinned RAM", _figure(gpu.link_bandwidth, 1e9, "GB/s")
        yield "", "from ordinary RAM", _figure(gpu.pageable_bandwidth, 1e9, "GB/s")
        yield "", "multiplies in 16 bit", _figure(gpu.matmul, 1e12, "TFLOP/s")
    yield "CPU", "reads RAM in 32 bit", _figure(hardware.ram_bandwidth, 1e9, "GB/s")
    yield "", "reads RAM in 16 bit", _figure(hardware.ram_bandwidth_16bit, 1e9, "GB/s")
    yield "", "multiplies in 32 bit", _figure(hardware.cpu_matmul, 1e12, "TFLOP/s")
    yield "", "multiplies in 16 bit", _figure(hardware.cpu_matmul_16bit, 1e12, "TFLOP/s")
    later = "" if hardware.disk_bandwidth else "; the first large model does it"
    yield "disk", "reads", _figure(hardware.disk_bandwidth, 1e9, "GB/s") + later
    own = hardware.cpu_layer_overhead or (None if hardware.gpus else hardware.layer_overhead)
    if hardware.gpus:
        yield "a layer", "launches, on a GPU", _figure(hardware.layer_overhead, 1e-3, "ms a token")
    yield "" if hardware.gpus else "a layer", "launches, on the CPU", _figure(own, 1e-3, "ms a token")


def _gpu(gpu: Gpu) -> Iterator[str]:
    memory = f"{gib(gpu.free)} of {gib(gpu.total)} free" if gpu.free is not None else "its memory is unknown"
    yield _row(f"GPU {gpu.index}", f"{gpu.name}, {memory}")
    details = [gpu.uuid] if gpu.uuid else []
    if gpu.uuid.startswith("MIG-"):
        details.append("MIG instance")
    if gpu.capability:
        details.append("compute capability {}.{}".format(*gpu.capability))
    details.append(CLASSES[gpu.managed])
    if gpu.context is not None:
        details.append(f"CUDA context {gib(gpu.context)}")
    yield _row("", ", ".join(details))


def _figure(value: float | None, unit: float, name: str) -> str:
    """Three digits: ``4,240 GB/s``, ``0.241 ms``."""
    if value is None:
        return UNKNOWN
    number = value / unit
    return f"{number:,.0f} {name}" if number >= 100 else f"{number:.3g} {name}"


def _row(name: str, text: str) -> str:
    return f"  {name:8} {text}"
