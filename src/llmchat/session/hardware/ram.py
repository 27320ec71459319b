"""The RAM that is there, and what limits it. The memory of a GPU that the system counts as its own is left out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from llmchat.session.hardware import cgroup
from llmchat.session.hardware.nvml import Nvml

__all__ = ["SYSTEM", "Ram", "gpu_nodes", "pinned_limit", "ram", "swap_total", "wsl"]

SYSTEM = Path("/sys")
WSL_PINNED = 512 * 2**20
"""Bytes. NVIDIA's guide to CUDA on WSL calls pinned memory limited and names no figure; reports of what could be
had there go from 0.5 to 1 GiB, on machines of up to 64 GiB (github.com/microsoft/WSL issue 14078 of 2026)."""


class Ram(msgspec.Struct, frozen=True, kw_only=True):
    total: int
    available: int
    limit: str = ""
    """``cgroup`` where that leaves less than the machine has."""


def ram(
    cgroups: Path = cgroup.CGROUPS,
    proc: Path = cgroup.PROC,
    system: Path = SYSTEM,
    without: frozenset[int] = frozenset(),
) -> Ram:
    """The machine's RAM, or what a control group leaves of it where that is less. ``without``: NUMA nodes that do
    not count, see ``gpu_nodes``."""
    import psutil

    memory = psutil.virtual_memory()
    machine = Ram(total=memory.total, available=memory.available)
    if without:
        machine = _of_nodes(system, without, machine)
    limit = cgroup.memory_limit(cgroups, proc)
    if limit is None or (limit.available >= machine.available and limit.total >= machine.total):
        return machine
    total = min(machine.total, limit.total)
    return Ram(total=total, available=min(machine.available, limit.available, total), limit="cgroup")


def gpu_nodes(nvml: Nvml, system: Path = SYSTEM) -> frozenset[int]:
    """NUMA nodes that are the memory of GPUs (GH200, GB200): /proc/meminfo counts them, too, 574 GiB where Grace
    has 479 (github.com/numactl/numactl issue 210).

    They have no CPUs. The driver says which node a GPU is; where it does not, all nodes without CPUs are taken for
    GPUs', but only on a machine with such GPUs: elsewhere they are RAM behind CXL.
    """
    coherent = [device for device in nvml.everything if nvml.coherent(device)]
    if not coherent:
        return frozenset()
    folder = system / "devices" / "system" / "node"
    bare = _listed(folder / "has_memory") - _listed(folder / "has_cpu")
    told = {nvml.numa_node(device) for device in coherent}
    return frozenset(bare if None in told else bare & told)


def swap_total(proc: Path = cgroup.PROC) -> int:
    """Bytes; 0 where there is none or nothing tells."""
    fields = _fields(proc / "meminfo")
    if "SwapTotal" in fields:
        return fields["SwapTotal"]
    import psutil

    try:
        return int(psutil.swap_memory().total)
    except (OSError, RuntimeError, ValueError):
        return 0


def pinned_limit(total: int, platform: str, proc: Path = cgroup.PROC) -> int | None:
    """Bytes of RAM that can be pinned for a GPU; None where only the RAM limits it. ``platform``: sys.platform.

    On Windows half of the RAM can be a GPU's at all (Microsoft, Calculating Graphics Memory). RLIMIT_MEMLOCK is
    left out: it is mlock's, and NVIDIA's driver pins pages itself, without a look at it (os_lock_user_pages in
    its open kernel modules).
    """
    if platform == "win32":
        return total // 2
    return min(WSL_PINNED, total) if wsl(proc) else None


def wsl(proc: Path = cgroup.PROC) -> bool:
    """Linux as a guest of Windows."""
    try:
        return "microsoft" in (proc / "sys" / "kernel" / "osrelease").read_text().lower()
    except OSError:
        return False


def _of_nodes(system: Path, without: frozenset[int], machine: Ram) -> Ram:
    """What the other nodes have: what is free there, and the pages of files, which can be dropped."""
    folder = system / "devices" / "system" / "node"
    nodes = [_fields(folder / f"node{node}" / "meminfo") for node in _listed(folder / "has_memory") - without]
    if not nodes or not all("MemTotal" in node and "MemFree" in node for node in nodes):
        return machine
    total = min(machine.total, sum(node["MemTotal"] for node in nodes))
    available = sum(
        node["MemFree"] + node.get("Active(file)", 0) + node.get("Inactive(file)", 0) for node in nodes
    )
    return Ram(total=total, available=min(machine.available, available, total))


def _fields(meminfo: Path) -> Mapping[str, int]:
    """Bytes by name. A node's lines begin with ``Node 0``, the machine's do not."""
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        name, _, value = line.partition(":")
        number = value.split()
        if number and number[0].isdecimal():
            found[name.split()[-1]] = int(number[0]) * (1024 if number[1:] == ["kB"] else 1)
    return found


def _listed(path: Path) -> set[int]:
    """The numbers in a list such as ``0-1,4``."""
    try:
        parts = path.read_text().strip().split(",")
    except OSError:
        return set()
    found: set[int] = set()
    for part in parts:
        first, _, last = part.partition("-")
        if first.isdecimal():
            found |= set(range(int(first), int(last if last.isdecimal() else first) + 1))
    return found
