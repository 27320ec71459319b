"""A plan is data: how a model will be held, what that takes, how fast it will be, and why."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from llmchat.domain.memory import Account


class Precision(StrEnum):
    PUBLISHED = "published"
    INT8 = "8bit"
    INT4 = "4bit"


Runner = Literal["resident", "offloaded", "managed"]
"""The mechanism in the engine that executes the plan (see ``engine/runners``)."""

Prefer = Literal["balanced", "quality", "speed"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the person asked for. What is set here is never changed by the planner: it refuses instead."""

    context: int | None = None
    """Tokens; None lets the planner take ``min(8192, the model's)``."""
    strategy: str | None = None
    precision: Precision | None = None
    gpu_budget: dict[int, int] = {}
    """Most bytes to use on GPU i, all kinds together."""
    ram_budget: int | None = None
    prefer: Prefer = "balanced"
    comfortable: float = 8.0
    """Tokens/s at which reading is comfortable."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, tag="plan"):
    strategy: str
    runner: Runner
    precision: Precision
    dtype: str
    """Compute dtype, as torch spells it."""
    context: int
    """Tokens for which the KV cache was counted."""
    kv: Literal["device"] = "device"
    """Where the KV cache lies: with its layers."""
    placement: dict[str, str]
    """Every module's name to ``cuda:N``, ``cpu`` or ``disk``: an explicit device map."""
    main_device: str
    """Where inputs go, and where offloaded layers are executed."""
    devices: dict[str, Account]
    """Planned bytes of each device, by kind. ``disk`` counts weights only."""
    tokens_per_second: float
    time_to_first_token: float
    """Seconds for a prompt of 512 tokens."""
    quantized_share: float = 0.0
    """Of the parameters, how many the precision really shrinks (0..1)."""
    because: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """``ram-offload · 4bit``; the precision is left out when as published."""
        return self.strategy if self.precision is Precision.PUBLISHED else f"{self.strategy} · {self.precision}"


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag="refusal"):
    strategy: str
    precision: Precision
    context: int
    reason: str
    """One sentence."""
    device: str | None = None
    """The device that is short; None where the reason is not memory."""
    missing: int = 0
    """Bytes short on that device; 0 where the reason is not memory."""
    remedies: tuple[str, ...] = ()


Proposal = Plan | Refusal


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """Every strategy times every precision, best first; refusals last, the nearest miss first."""

    proposals: tuple[Proposal, ...]
    best: Plan | None
    why: str
    """Why the best is the best, or why there is none, in one or two sentences."""

    @property
    def plans(self) -> tuple[Plan, ...]:
        return tuple(p for p in self.proposals if isinstance(p, Plan))
