"""The conversation. Lives in the parent; a switch of strategy never touches it."""

from __future__ import annotations

from typing import Literal

import msgspec

Role = Literal["system", "user", "assistant"]
StopReason = Literal["end", "length", "stopped", "context", "failed"]
"""The model ended it / the token limit / the person / the context is full / an error (the part is kept)."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine sees of a turn."""

    role: Role
    content: str


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How tokens are drawn. The first four are as the model's authors set them where they are None."""

    temperature: float | None = None
    """0 is greedy."""
    top_p: float | None = None
    top_k: int | None = None
    """0 is off."""
    repetition_penalty: float | None = None
    max_tokens: int | None = None
    """None: what is left of the context."""
    seed: int | None = None


class ReplyStats(msgspec.Struct, frozen=True, kw_only=True):
    prompt_tokens: int
    reused_tokens: int = 0
    """Of the prompt, those whose KV cache was still there."""
    tokens: int
    """Generated."""
    time_to_first_token: float
    """Seconds."""
    seconds: float
    """Of decoding, after the first token."""
    reason: StopReason

    @property
    def tokens_per_second(self) -> float | None:
        """Decode speed; None for fewer than two tokens."""
        return (self.tokens - 1) / self.seconds if self.tokens > 1 and self.seconds > 0 else None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a chat as kept and shown."""

    id: str
    role: Role
    content: str
    thinking: str = ""
    created: float
    """Unix seconds."""
    model: str = ""
    label: str = ""
    """Strategy and precision that answered."""
    stats: ReplyStats | None = None


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str = ""
    created: float
    updated: float
    model: str = ""
    strategy: str = ""
    precision: str = ""
    system: str = ""
    turns: tuple[Turn, ...] = ()

    def messages(self) -> tuple[Message, ...]:
        """What goes to the engine: the system prompt, then the turns; thinking is left out."""
        head = (Message(role="system", content=self.system),) if self.system else ()
        return head + tuple(Message(role=t.role, content=t.content) for t in self.turns)
