"""The fake engine's machine: what it would hold, how fast its parts would be, how long things take."""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec.structs import replace

from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.domain.memory import CPU, DISK, GIB
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan
from llmchat.protocol import Held

Tell = Callable[[float], None]
"""Told which share (0..1) of something is done."""

PROCESS = int(0.7 * GIB)
"""RAM of an engine with torch and transformers and no model."""
DISK_SPEED = 5e9
"""Bytes/s at which weights are read, as from a good SSD."""
READ_BANDWIDTH = {
    "H200": 4.2e12,
    "H100": 2.9e12,
    "A100": 1.7e12,
    "V100": 0.8e12,
    "3090": 0.85e12,
    "L40S": 0.76e12,
    "L4": 0.27e12,
    "3060": 0.32e12,
}
"""Bytes/s by a part of the GPU's name: a little below the data sheets."""
OTHER_GPU = 0.5e12
LINK = 2.5e10
"""Bytes/s: PCIe 4.0 x16."""


def seconds(name: str, default: float) -> float:
    """The environment's ``LLMCHAT_FAKE_<name>``; ``default`` where it is not set or no number."""
    try:
        return max(0.0, float(os.environ[f"LLMCHAT_FAKE_{name}"]))
    except (KeyError, ValueError):
        return default


def load_seconds(total: int) -> float:
    """For ``total`` bytes: at the pace of a disk, but nobody waits long for a demo."""
    return seconds("LOAD_SECONDS", min(6.0, max(0.5, total / DISK_SPEED)))


def calibrated(profile: HardwareProfile) -> HardwareProfile:
    """With the bandwidths that it lacks filled in."""
    return replace(
        profile,
        gpus=tuple(_calibrated(gpu) for gpu in profile.gpus),
        ram_bandwidth=profile.ram_bandwidth or 4e10,
        disk_bandwidth=profile.disk_bandwidth or 2e9,
        layer_overhead=profile.layer_overhead or 4.5e-4,
    )


def _calibrated(gpu: Gpu) -> Gpu:
    by_name = next((speed for part, speed in READ_BANDWIDTH.items() if part in gpu.name), OTHER_GPU)
    return replace(
        gpu,
        read_bandwidth=gpu.read_bandwidth or by_name,
        link_bandwidth=gpu.link_bandwidth or LINK,
    )


class Holding:
    """What the fake engine holds by device. Written by the worker, read by the heartbeat."""

    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._facts: ModelFacts | None = None
        self._share = 0.0
        self._tokens = 0

    def plan(self, plan: Plan, facts: ModelFacts) -> None:
        self._plan, self._facts, self._share, self._tokens = plan, facts, 0.0, 0

    def fill(self, share: float) -> None:
        """So much of the weights is there."""
        self._share = share

    def remember(self, tokens: int) -> None:
        """The KV cache is that of so many tokens."""
        self._tokens = tokens

    def drop(self) -> None:
        self._plan = None

    def kv_bytes(self, tokens: int) -> dict[str, int]:
        """KV cache of so many tokens by device: each layer's where the layer is executed."""
        plan, facts = self._plan, self._facts
        sizes: dict[str, int] = {}
        for module in facts.layers if plan and facts else ():
            where = plan.placement.get(module.name, plan.main_device) if plan else CPU
            if plan and where in (CPU, DISK):
                where = plan.main_device
            sizes[where] = sizes.get(where, 0) + module.cache.size(tokens)
        return sizes

    def held(self) -> dict[str, Held]:
        """As the heartbeat says it."""
        plan, share = self._plan, self._share
        found = {CPU: Held(reserved=PROCESS)}
        if plan is None:
            return found
        kv = self.kv_bytes(self._tokens)
        for name, account in plan.devices.items():
            if name == DISK:
                continue
            weights, cache = int(account.weights * share), kv.get(name, 0)
            reserved = weights + cache + int(account.compute * share)
            found[name] = Held(
                weights=weights,
                kv_cache=cache,
                reserved=max(reserved, PROCESS + weights) if name == CPU else reserved,
            )
        return found
