"""The machine: GPUs, RAM, cores, disk and what is installed. Nothing here imports torch."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from llmchat.domain.hardware import Gpu, HardwareProfile, Software
from llmchat.session.hardware import cgroup
from llmchat.session.hardware.nvml import Device, Nvml

__all__ = ["Ram", "probe", "ram"]


class Ram(msgspec.Struct, frozen=True, kw_only=True):
    total: int
    available: int
    limit: str = ""
    """``cgroup`` where that leaves less than the machine has."""


def probe(cache: Path, *, cgroups: Path = cgroup.CGROUPS, proc: Path = cgroup.PROC) -> HardwareProfile:
    """``cache`` is where models are downloaded to: the disk that counts. ``cgroups`` and ``proc`` are for tests.

    What cannot be found out is left unknown, with a sentence in ``notes``; nothing is raised.
    """
    memory, nvml = ram(cgroups, proc), Nvml()
    gpus = tuple(_gpu(nvml, device, memory) for device in nvml.devices)
    return HardwareProfile(
        name=platform.node() or "this machine",
        gpus=gpus,
        ram_total=memory.total,
        ram_available=memory.available,
        ram_limit=memory.limit,
        disk_free=_disk_free(cache),
        cpu=cpu_name(proc),
        cores=cores(cgroups, proc),
        software=software(),
        driver=nvml.driver(),
        notes=_notes(nvml, gpus),
    )


def ram(cgroups: Path = cgroup.CGROUPS, proc: Path = cgroup.PROC) -> Ram:
    """The machine's RAM, or what a control group leaves of it where that is less."""
    import psutil

    machine = psutil.virtual_memory()
    limit = cgroup.memory_limit(cgroups, proc)
    if limit is None or (limit.available >= machine.available and limit.total >= machine.total):
        return Ram(total=machine.total, available=machine.available)
    total = min(machine.total, limit.total)
    return Ram(total=total, available=min(machine.available, limit.available, total), limit="cgroup")


def cores(cgroups: Path = cgroup.CGROUPS, proc: Path = cgroup.PROC) -> int:
    """Cores that this process may use at once: affinity and quota."""
    if sys.platform == "linux":
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quota = cgroup.cpu_limit(cgroups, proc)
    return max(1, min(count, int(quota)) if quota is not None else count)


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


def software() -> Software:
    """From package metadata alone."""
    return Software(
        torch=_version("torch") or "",
        torch_cuda=_torch_cuda(),
        transformers=_version("transformers") or "",
        accelerate=_version("accelerate") or "",
        bitsandbytes=_version("bitsandbytes"),
        rmm=_version("rmm-cu13", "rmm-cu12", "rmm"),
    )


def _version(*names: str) -> str | None:
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _torch_cuda() -> str | None:
    """The line ``cuda = '13.0'`` of torch/version.py, read as text."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    return cuda_in(Path(spec.origin).with_name("version.py"))


def cuda_in(version_file: Path) -> str | None:
    """The CUDA version in such a file; None for a CPU build."""
    try:
        text = version_file.read_text()
    except OSError:
        return None
    found = re.search(r"""^cuda\s*(?::[^=]+)?=\s*["']([\d.]+)["']""", text, re.M)
    return found[1] if found else None


def _gpu(nvml: Nvml, device: Device, memory: Ram) -> Gpu:
    found = nvml.memory(device)
    return Gpu(
        index=device.index,
        name=device.name,
        uuid=device.uuid,
        # A driver that names no memory of the GPU's own is that of one that uses the machine's.
        total=found.total if found else memory.total,
        free=found.free if found else None,
        capability=nvml.capability(device),
        managed="paged" if found else "integrated",
    )


def _notes(nvml: Nvml, gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
    silent = [
        f"The driver does not tell how much memory GPU {gpu.index} ({gpu.name}) has free."
        for gpu in gpus
        if gpu.free is None
    ]
    return (*([nvml.problem] if nvml.problem else []), *silent)


def _disk_free(folder: Path) -> int | None:
    """On the disk where ``folder`` lies or would lie."""
    for place in (folder.absolute(), *folder.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return None
    return None
