"""A model in memory, as every part of the engine after the load sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan

if TYPE_CHECKING:
    import torch


@dataclass
class LoadedModel:
    model: Any
    """A transformers ``PreTrainedModel``."""
    tokenizer: Any
    plan: Plan
    facts: ModelFacts
    input_device: torch.device
    """Where ``input_ids`` go."""
    eos_ids: frozenset[int]
    """Every token that ends a reply: the generation config's, the tokenizer's, the chat template's end of turn."""
    notes: list[str] = field(default_factory=list)
    """What came out otherwise than planned, in words."""
    closers: list[Callable[[], None]] = field(default_factory=list)
    """Run by ``close``: temporary folders, memory pools."""

    def close(self) -> None:
        """Give back what outlives the model. Safe to call twice."""
        while self.closers:
            self.closers.pop()()
