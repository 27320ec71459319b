"""What the control groups above this process leave of RAM and CPU (Linux; version 1, 2 and both at once)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

__all__ = ["MemoryLimit", "cpu_limit", "memory_limit"]

CGROUPS = Path("/sys/fs/cgroup")
PROC = Path("/proc")
UNLIMITED = 2**60
"""Bytes; version 1 writes a number near 2**63 where there is no limit."""


class MemoryLimit(msgspec.Struct, frozen=True, kw_only=True):
    total: int
    """Bytes; the smallest limit of all groups above."""
    available: int
    """Bytes that the fullest group still lets in, what its file cache would give up included."""


def memory_limit(cgroups: Path = CGROUPS, proc: Path = PROC) -> MemoryLimit | None:
    """None where nothing limits the RAM, or nothing can be read."""
    found = [
        limit
        for folder, version in _groups("memory", cgroups, proc)
        if (limit := _memory_v2(folder) if version == 2 else _memory_v1(folder)) is not None
    ]
    if not found:
        return None
    return MemoryLimit(
        total=min(limit.total for limit in found), available=min(limit.available for limit in found)
    )


def cpu_limit(cgroups: Path = CGROUPS, proc: Path = PROC) -> float | None:
    """Cores' worth of time, by the tightest quota above; None where there is none."""
    quotas = [
        quota
        for folder, version in _groups("cpu", cgroups, proc)
        if (quota := _quota_v2(folder) if version == 2 else _quota_v1(folder)) is not None
    ]
    return min(quotas, default=None)


def _memory_v2(folder: Path) -> MemoryLimit | None:
    limits = [limit for name in ("memory.max", "memory.high") if (limit := _number(folder / name)) is not None]
    current = _number(folder / "memory.current")
    if not limits or current is None:
        return None
    return _limit(min(limits), current, _stat(folder, "inactive_file"))


def _memory_v1(folder: Path) -> MemoryLimit | None:
    limit, current = _number(folder / "memory.limit_in_bytes"), _number(folder / "memory.usage_in_bytes")
    if limit is None or current is None or limit >= UNLIMITED:
        return None
    return _limit(limit, current, _stat(folder, "total_inactive_file"))


def _limit(limit: int, current: int, reclaimable: int) -> MemoryLimit:
    return MemoryLimit(total=limit, available=min(limit, max(0, limit - current + reclaimable)))


def _quota_v2(folder: Path) -> float | None:
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    if not (quota.isdecimal() and period.isdecimal() and int(period)):
        return None
    return int(quota) / int(period)


def _quota_v1(folder: Path) -> float | None:
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 else None


def _groups(controller: str, cgroups: Path, proc: Path) -> Iterator[tuple[Path, int]]:
    """Folders of this process's groups, from its own up to the root that is mounted here, with their version."""
    for line in _text(proc / "self" / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            mounts = (cgroups, cgroups / "unified")
            for mount in mounts:
                if (mount / "cgroup.controllers").exists():
                    yield from ((folder, 2) for folder in _upwards(mount, path))
        elif controller in controllers.split(","):
            places = [place for place in (cgroups / controllers, cgroups / controller) if place.is_dir()]
            for mount in places[:1]:
                yield from ((folder, 1) for folder in _upwards(mount, path))


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """A container may see only its own part of the tree, by another path: then the mounted root is the group."""
    folder = mount / path.lstrip("/")
    if ".." in folder.parts or not folder.is_dir():
        folder = mount
    while folder != mount:
        yield folder
        folder = folder.parent
    yield mount


def _stat(folder: Path, name: str) -> int:
    for line in _text(folder / "memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdecimal():
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.lstrip("-").isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
