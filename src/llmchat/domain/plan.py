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

Kv = Literal["device", "8bit", "ram"]
"""The KV cache: in 16 bit with the layers it belongs to / there in 8 bit / in RAM, each layer's part copied to its
GPU when its turn comes."""

Prefer = Literal["balanced", "quality", "speed"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the person asked for. What is set here is never changed by the planner: it refuses instead."""

    context: int | None = None
    """Tokens; None lets the planner take ``min(8192, the model's)``."""
    strategy: str | None = None
    precision: Precision | None = None
    kv: Kv | None = None
    """None: with the layers, and otherwise only where that does not fit."""
    gpus: tuple[int, ...] = ()
    """The GPUs to use, the preferred first; empty: all, the planner choosing among them."""
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
    kv: Kv = "device"
    placement: dict[str, str]
    """Every module's name to ``cuda:N``, ``cpu`` or ``disk``: an explicit device map."""
    main_device: str
    """Where inputs go, and where offloaded layers are executed."""
    devices: dict[str, Account]
    """Planned bytes of each device, by kind. ``disk`` counts weights only."""
    tokens_per_second: float
    """With a prompt of 512 tokens in the context."""
    full_tokens_per_second: float = 0.0
    """With the context full: more KV cache is read for every token. 0: not predicted."""
    time_to_first_token: float
    """Seconds for a prompt of 512 tokens."""
    formula: float = 0.0
    """Tokens/s by arithmetic alone, before what earlier runs here taught. 0: the same."""
    quantized_share: float = 0.0
    """Of the parameters, how many the precision really shrinks (0..1)."""
    because: tuple[str, ...] = ()
    why_not: str = ""
    """Why this is not the best plan, in one sentence; empty for the best."""

    def speed_at(self, tokens: float) -> float:
        """Tokens/s after ``tokens`` others: a token's time grows evenly from 512 of them to a full context."""
        short, span = 1 / self.tokens_per_second, self.context - 512
        if span <= 0 or not self.full_tokens_per_second:
            return self.tokens_per_second
        slope = (1 / self.full_tokens_per_second - short) / span
        return 1 / max(short / 2, short + slope * (tokens - 512))

    @property
    def pace(self) -> float:
        """Tokens/s on average over a conversation that fills the context: what plans are ranked by."""
        return 2 / (1 / self.tokens_per_second + 1 / (self.full_tokens_per_second or self.tokens_per_second))

    @property
    def label(self) -> str:
        """``ram-offload · 4bit · KV in RAM``; what is as usual is left out."""
        return label(self.strategy, self.precision, self.kv)


def label(strategy: str, precision: Precision, kv: Kv = "device") -> str:
    """A plan's name, with what is not as usual of precision and KV cache."""
    parts = [strategy, *([str(precision)] if precision is not Precision.PUBLISHED else []), *KV_LABELS[kv]]
    return " · ".join(parts)


KV_LABELS: dict[Kv, tuple[str, ...]] = {"device": (), "8bit": ("KV in 8 bit",), "ram": ("KV in RAM",)}


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag="refusal"):
    strategy: str
    precision: Precision
    kv: Kv = "device"
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
    enough: tuple[str, ...] = ()
    """What hardware would hold the model on GPUs alone, where this machine does not: a sentence each."""

    @property
    def plans(self) -> tuple[Plan, ...]:
        return tuple(p for p in self.proposals if isinstance(p, Plan))
