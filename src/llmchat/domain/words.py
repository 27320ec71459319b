"""Devices and precisions as people say them."""

from __future__ import annotations

from llmchat.domain.memory import CPU, GIB, cuda_index, gib
from llmchat.domain.plan import Kv, Plan, Precision

PRECISIONS = {Precision.PUBLISHED: "as published", Precision.INT8: "in 8 bit", Precision.INT4: "in 4 bit"}

NOTICEABLE = 0.8
"""A full context that leaves less than this share of the speed is told."""
KV_CACHES: dict[Kv, str] = {"device": "in 16 bit with the layers", "8bit": "in 8 bit", "ram": "in RAM"}


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


def costs(plan: Plan) -> str:
    """What a plan takes and gives: ``16.7 GiB on GPU 0, 2.1 GiB in RAM, predicted 30 tokens/s``."""
    held = [f"{amount(a.engine)} {at(d)}" for d, a in plan.devices.items() if a.weights or a.kv_cache]
    return ", ".join([*held, f"predicted {speed(plan)}"])


def speed(plan: Plan) -> str:
    """``21 tokens/s``; where a full context slows it down, ``21 tokens/s, 1.3 with the context full``."""
    text = f"{rate(plan.tokens_per_second)} tokens/s"
    if plan.full_tokens_per_second and plan.full_tokens_per_second < NOTICEABLE * plan.tokens_per_second:
        text += f", {rate(plan.full_tokens_per_second)} with the context full"
    return text


def rate(tokens_per_second: float) -> str:
    """To two significant digits: ``120``, ``21``, ``0.28``."""
    return f"{float(f'{tokens_per_second:.2g}'):g}"
