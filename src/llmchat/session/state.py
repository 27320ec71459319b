"""The one state of a session: frozen, replaced as a whole, written by the controller alone, drawn by the UI."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from llmchat.domain.chat import Chat
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import Account
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan, Ranking
from llmchat.errors import Problem

EMBEDDED_TITLE = "SmolLM2-135M-Instruct"


class Phase(StrEnum):
    IDLE = "idle"
    """No model: the picker."""
    PREPARING = "preparing"
    """Fetching, converting, inspecting, planning: ``progress`` says which."""
    LOADING = "loading"
    READY = "ready"
    GENERATING = "generating"
    SWITCHING = "switching"
    """Old engine ended, its memory given back, the new plan on its way; then LOADING."""
    FAILED = "failed"
    """A model is chosen but none is loaded; ``problem`` says why. The chat is kept; F4 or ``reload`` goes on."""


class ModelRef(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be opened."""

    kind: Literal["embedded", "local", "hub", "config"]
    """``config``: only its config.json is at hand: it can be planned for, and not loaded."""
    id: str
    """Hub id, folder path, or ``smollm2`` for the embedded default."""
    revision: str = ""
    size: int | None = None
    """Bytes of weights on disk; None when not known without asking the hub."""
    present: bool = True
    """On this disk, complete."""
    note: str = ""
    """One short remark for the picker: ``converted once, about 30 s``."""

    @property
    def title(self) -> str:
        return EMBEDDED_TITLE if self.kind == "embedded" else self.id.rstrip("/").rsplit("/", 1)[-1]

    @property
    def name(self) -> str:
        """As turns and heads say it: the embedded model by its own name, any other by its id."""
        return self.title if self.kind in ("embedded", "config") else self.id


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What is going on, for the load screen."""

    stage: str
    done: int = 0
    total: int = 0
    """0: not known."""
    unit: Literal["bytes", "tensors", "tokens", ""] = ""
    started: float = 0.0
    """Monotonic seconds."""


class GpuSample(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    name: str
    account: Account
    utilization: float | None = None
    """0..1."""
    temperature: float | None = None
    """Degrees Celsius."""
    power: float | None = None
    """Watts."""


class MemorySample(msgspec.Struct, frozen=True, kw_only=True):
    """Every GPU and the RAM at one moment, by kind: the driver's and the system's numbers, split up by what the
    engine says it holds."""

    time: float
    gpus: tuple[GpuSample, ...] = ()
    ram: Account
    ram_limit: str = ""
    engine_pid: int | None = None
    cpu_utilization: float | None = None
    """Of all cores of the machine, 0..1."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply that is streaming now; it becomes a Turn of the chat when it ends."""

    turn_id: str
    answer: str = ""
    thinking: str = ""
    tokens: int = 0
    started: float
    """Monotonic seconds at which it was sent."""
    first_token: float | None = None
    """Monotonic seconds."""
    prompt_tokens: int | None = None
    prefill_done: int = 0


class HubAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Who is logged in to the Hugging Face hub."""

    name: str | None = None
    """None: nobody, or not asked yet."""
    source: str = ""
    """Where the token in force comes from, in words: ``HF_TOKEN in the environment``, ``stored``; empty: none."""
    role: str = ""
    note: str = ""
    """``HF_TOKEN shadows the stored token``, ``offline: not checked``."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A line in the chat that is not a message: a switch, a context border, a completion-mode remark."""

    after: int
    """Number of turns before it."""
    text: str
    severity: Literal["info", "warning", "error"] = "info"


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    phase: Phase = Phase.IDLE
    engine: Literal["starting", "up", "ready", "down"] = "starting"
    """``up``: the process runs; ``ready``: torch is imported."""
    hanging: bool = False
    """The engine has given no sign of life for a while; ``stop`` (Esc) ends it now, it is ended later anyway."""
    hardware: HardwareProfile | None = None
    model: ModelRef | None = None
    facts: ModelFacts | None = None
    ranking: Ranking | None = None
    plan: Plan | None = None
    """In force, or being loaded."""
    measured: dict[str, Account] | None = None
    """After the load, by device; stands beside ``plan.devices``."""
    measured_speed: float | None = None
    """Tokens/s of the last reply under this plan that was long enough to tell."""
    measured_first: float | None = None
    """Seconds to the first token of the last reply under this plan whose prompt was really read."""
    measured_first_tokens: int = 0
    """Tokens that were read for it: its prompt without what was still in the KV cache."""
    load_seconds: float | None = None
    step: Step | None = None
    chat: Chat | None = None
    reply: Reply | None = None
    notices: tuple[Notice, ...] = ()
    seen_from: int = 0
    """Index of the first turn that the model still sees."""
    memory: MemorySample | None = None
    history: tuple[MemorySample, ...] = ()
    """The last two minutes, oldest first."""
    account: HubAccount = HubAccount()
    models: tuple[ModelRef, ...] = ()
    """For the picker: the embedded default, the hub cache, local folders."""
    problem: Problem | None = None
    """To be shown in a dialog; cleared by ``dismiss``."""
    draft: str = ""
    """Text given back to the composer, as after a failed send."""

    @property
    def context_used(self) -> int:
        """Tokens of the context taken by the conversation after the last reply; 0 before the first."""
        if self.chat:
            for turn in reversed(self.chat.turns):
                if turn.stats:
                    return turn.stats.prompt_tokens + turn.stats.tokens
        return 0

    @property
    def busy(self) -> bool:
        return self.phase in (Phase.PREPARING, Phase.LOADING, Phase.GENERATING, Phase.SWITCHING)
