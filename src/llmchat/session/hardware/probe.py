"""The machine: GPUs, RAM, cores, disk and what is installed. Nothing here imports torch."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.session.hardware import cgroup, disk
from llmchat.session.hardware import ram as memory
from llmchat.session.hardware.nvml import Device, Nvml
from llmchat.session.hardware.ram import SYSTEM, Ram
from llmchat.session.hardware.software import software

__all__ = ["probe"]


def probe(
    cache: Path, *, cgroups: Path = cgroup.CGROUPS, proc: Path = cgroup.PROC, system: Path = SYSTEM
) -> HardwareProfile:
    """``cache`` is where models are downloaded to: the disk that counts. The other folders are for tests.

    What cannot be found out is left unknown, with a sentence in ``notes``; nothing is raised.
    """
    nvml = Nvml()
    nodes = memory.gpu_nodes(nvml, system)
    ram = memory.ram(cgroups, proc, system, nodes)
    gpus = tuple(_gpu(nvml, device, ram) for device in nvml.devices)
    return HardwareProfile(
        name=platform.node() or "this machine",
        gpus=gpus,
        ram_total=ram.total,
        ram_available=ram.available,
        ram_limit=ram.limit,
        swap_total=memory.swap_total(proc),
        pinned_limit=memory.pinned_limit(ram.total, sys.platform, proc) if gpus else None,
        disk_free=disk.free(cache),
        disk_kind=disk.kind(cache, proc, system),
        cpu=cpu_name(proc),
        cores=cores(cgroups, proc),
        physical_cores=_physical_cores(),
        software=software(),
        driver=nvml.driver(),
        driver_cuda=nvml.driver_cuda(),
        notes=_notes(nvml, gpus, nodes),
    )


def cores(cgroups: Path = cgroup.CGROUPS, proc: Path = cgroup.PROC) -> int:
    """Cores that this process may use at once: affinity and quota."""
    if sys.platform == "linux":
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quota = cgroup.cpu_limit(cgroups, proc)
    return max(1, min(count, int(quota)) if quota is not None else count)


def _physical_cores() -> int | None:
    import psutil

    return psutil.cpu_count(logical=False)


def cpu_name(proc: Path = cgroup.PROC) -> str:
    """``AMD EPYC 9654 96-Core Processor``; the architecture where no name can be found."""
    try:
        text = (proc / "cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^(?:model name|cpu model|Model)\s*:\s*(.+)$", text, re.M)
    name = found[1] if found else _mac_cpu() if sys.platform == "darwin" else platform.processor()
    return " ".join(name.split()) or platform.machine()


def _mac_cpu() -> str:
    try:
        question = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(question, capture_output=True, text=True, timeout=2, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _gpu(nvml: Nvml, device: Device, ram: Ram) -> Gpu:
    managed = nvml.managed(device, ram.total)
    found = None if managed == "integrated" else nvml.memory(device)
    shared = managed == "integrated"
    return Gpu(
        index=device.index,
        name=device.name,
        uuid=device.uuid,
        # Of a GPU that has memory and does not say how much, the RAM stands in until CUDA is asked.
        total=found.total if found else ram.total,
        free=found.free if found else ram.available if shared else None,
        capability=nvml.capability(device),
        managed=managed,
    )


def _notes(nvml: Nvml, gpus: tuple[Gpu, ...], nodes: frozenset[int]) -> tuple[str, ...]:
    notes = [nvml.problem] if nvml.problem else []
    notes += [
        f"The driver does not tell how much memory GPU {gpu.index} ({gpu.name}) has free."
        for gpu in gpus
        if gpu.free is None
    ]
    if nodes:
        count = f"{len(nodes)} NUMA node" + ("s" if len(nodes) > 1 else "")
        notes.append(f"The system counts {count} of GPU memory as RAM; llmchat counts that as the GPU's only.")
    return tuple(notes)
