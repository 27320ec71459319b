"""Keys and values with their layer, in memory that grows by steps.

Why not transformers' ``DynamicLayer``: it makes both anew for every token, which reads and writes all of the cache
before attention reads it, and leaves holes in the GPU's memory.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

STEP = 256
"""Tokens for which there is room at a time."""


class GrowingLayer(DynamicLayer):  # type: ignore[misc]
    """``keys`` and ``values`` are views, (batch, heads, tokens, head size), of the beginning of larger tensors.
    What ``update`` returns is such a view: later tokens are written behind it, or over what was cropped."""

    def __init__(self, limit: int = 0) -> None:
        """``limit``: tokens that it will hold at most, so that there is room for no more; more are not refused."""
        super().__init__()
        self._limit = limit
        self._key_room: torch.Tensor | None = None
        self._value_room: torch.Tensor | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keep the new tokens; returns all keys and values."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        length = self.get_seq_length()
        self._key_room, self.keys = self._written(self._key_room, key_states, length)
        self._value_room, self.values = self._written(self._value_room, value_states, length)
        return self.keys, self.values

    def reset(self) -> None:
        """Forget all tokens, and give the memory back."""
        super().reset()
        self._key_room = self._value_room = None

    def _written(
        self, room: torch.Tensor | None, states: torch.Tensor, length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The room, or a larger one, with ``states`` behind ``length`` tokens; and the view of them all."""
        end = length + states.shape[-2]
        if room is None or room.shape[-2] < end:
            room = self._larger(room, states, length, end)
        room[..., length:end, :] = states
        return room, room[..., :end, :]

    def _larger(self, room: torch.Tensor | None, states: torch.Tensor, length: int, end: int) -> torch.Tensor:
        tokens = -(-end // STEP) * STEP
        if self._limit >= end:
            tokens = min(tokens, self._limit)
        new = states.new_empty(*states.shape[:-2], tokens, states.shape[-1])
        if room is not None:
            new[..., :length, :] = room[..., :length, :]
        return new
