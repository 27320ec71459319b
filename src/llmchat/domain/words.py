"""Devices and precisions as people say them."""

from __future__ import annotations

from llmchat.domain.memory import CPU, GIB, cuda_index, gib
from llmchat.domain.plan import Precision

PRECISIONS = {Precision.PUBLISHED: "as published", Precision.INT8: "in 8 bit", Precision.INT4: "in 4 bit"}


def place(device: str) -> str:
    """``GPU 0`` for ``cuda:0``, ``RAM`` for ``cpu``, ``disk``."""
    index = cuda_index(device)
    return f"GPU {index}" if index is not None else {CPU: "RAM"}.get(device, device)


def amount(count: int) -> str:
    """``count`` bytes as GiB, as MiB where that would read 0.0 GiB; never 0 for something."""
    return gib(count) if count >= GIB // 10 else f"{-(-count // 2**20)} MiB"


def at(device: str) -> str:
    """``on GPU 0``, ``in RAM``, ``on disk``."""
    return f"{'in' if device == CPU else 'on'} {place(device)}"
