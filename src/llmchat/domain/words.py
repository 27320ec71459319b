"""Devices and precisions as people say them."""

from __future__ import annotations

from llmchat.domain.memory import CPU, cuda_index
from llmchat.domain.plan import Precision

PRECISIONS = {Precision.PUBLISHED: "as published", Precision.INT8: "in 8 bit", Precision.INT4: "in 4 bit"}


def place(device: str) -> str:
    """``GPU 0`` for ``cuda:0``, ``RAM`` for ``cpu``, ``disk``."""
    index = cuda_index(device)
    return f"GPU {index}" if index is not None else {CPU: "RAM"}.get(device, device)


def at(device: str) -> str:
    """``on GPU 0``, ``in RAM``, ``on disk``."""
    return f"{'in' if device == CPU else 'on'} {place(device)}"
