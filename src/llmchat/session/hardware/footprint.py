"""RAM of a process and its children, as the system sees it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from llmchat.session.hardware.cgroup import PROC

PRIVATE = ("RssAnon:", "RssShmem:")
"""Lines of /proc/PID/status: the heap, and shared memory, in which CUDA's pinned memory lies."""


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes."""

    private: int
    """What the process and its children hold: free again when they end, and not before."""
    mapped: int
    """Pages of mapped files (libraries, checkpoints) that are in RAM. The system drops them when memory is short,
    and counts them as available."""


def footprint(pid: int | None, proc: Path = PROC) -> Footprint | None:
    """None where the process cannot be seen."""
    if pid is None:
        return None
    own = _fields(proc / str(pid) / "status")
    if PRIVATE[0] not in own:  # not Linux, or a process that has ended
        return _elsewhere(pid)
    children = sum(_private_of_child(proc / str(child)) for child in _descendants(proc, pid))
    return Footprint(private=_sum(own) + children, mapped=own.get("RssFile:", 0))


def _private_of_child(process: Path) -> int:
    """What only the child has: a forked one shares the pages that it does not write with its parent."""
    pages = _fields(process / "smaps_rollup")
    if "Private_Dirty:" in pages:
        return pages["Private_Dirty:"]
    return _sum(_fields(process / "status"))


def _descendants(proc: Path, pid: int) -> Iterator[int]:
    """Children, and theirs; none where the kernel does not list them."""
    for listed in (proc / str(pid) / "task").glob("*/children"):
        try:
            found = [int(word) for word in listed.read_text().split()]
        except (OSError, ValueError):
            continue
        for child in found:
            yield child
            yield from _descendants(proc, child)


def _sum(fields: dict[str, int]) -> int:
    return sum(fields.get(name, 0) for name in PRIVATE)


def _fields(path: Path) -> dict[str, int]:
    """Bytes by the name with its colon, of the lines ``RssAnon:   1234 kB``; empty where it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    rows = [line.split() for line in lines if line.endswith(" kB")]
    return {row[0]: int(row[1]) * 1024 for row in rows if len(row) == 3 and row[1].isdecimal()}


def _elsewhere(pid: int) -> Footprint | None:
    """Where the system tells no more than what is a process's alone, or its resident set."""
    import psutil

    try:
        process = psutil.Process(pid)
        resident, children = process.memory_info().rss, process.children(recursive=True)
    except psutil.Error:
        return None
    own = _alone(process)
    return Footprint(private=own + sum(map(_alone, children)), mapped=max(0, resident - own))


def _alone(process: Any) -> int:
    """0 for one that has ended meanwhile."""
    import psutil

    with contextlib.suppress(psutil.Error):
        return int(process.memory_full_info().uss)
    with contextlib.suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0
