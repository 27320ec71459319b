"""The memory account: the same kinds in every plan, panel and export."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

GIB = 1024**3

CPU = "cpu"
DISK = "disk"


def cuda(index: int) -> str:
    """The device name of GPU ``index``, as torch and device maps spell it: ``cuda:0``."""
    return f"cuda:{index}"


def cuda_index(device: str) -> int | None:
    """The GPU index in ``cuda:N``; None for ``cpu`` and ``disk``."""
    return int(device.removeprefix("cuda:")) if device.startswith("cuda:") else None


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Where one device's bytes go. ``total`` is the sum of all kinds."""

    weights: int = 0
    kv_cache: int = 0
    compute: int = 0
    """Activations, logits, workspaces and the CUDA context: all the engine holds beside weights and KV cache."""
    other: int = 0
    """Other processes."""
    free: int = 0
    unaccounted: int = 0
    """Used by nobody we can name. Honest, and hopefully small."""

    @property
    def engine(self) -> int:
        """Bytes that llmchat's engine holds, or will hold."""
        return self.weights + self.kv_cache + self.compute

    @property
    def used(self) -> int:
        return self.engine + self.other + self.unaccounted

    @property
    def total(self) -> int:
        return self.used + self.free


Accounts = Mapping[str, Account]
"""Device name (``cuda:0``, ``cpu``, ``disk``) to its account."""


def gib(count: int, digits: int = 1) -> str:
    """``count`` bytes as GiB for people: ``12.3 GiB``."""
    return f"{count / GIB:.{digits}f} GiB"
