"""RAM of a process, as the system sees it."""

from __future__ import annotations

import msgspec


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes."""

    resident: int
    """All pages that are in RAM, those of mapped files (libraries, checkpoints) included."""
    private: int
    """Those that nobody else has: free again when the process ends. Pages of mapped files are not among them, for
    the system counts those as available already."""


def footprint(pid: int | None) -> Footprint | None:
    """None where the process cannot be seen. Where the system tells no shared pages, all count as private."""
    import psutil

    if pid is None:
        return None
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return None
    return Footprint(resident=memory.rss, private=max(0, memory.rss - getattr(memory, "shared", 0)))
