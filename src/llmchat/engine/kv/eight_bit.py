"""Keys and values in 8 bit, quantized as they come.

Why not transformers' ``QuantizedCache``: it needs optimum-quanto or hqq, refuses models with any layer that is not
full attention, and cannot be cropped exactly, because it quantizes groups of many tokens together.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

from llmchat.domain.kv import group

LEVELS = 127
SCALE_TYPE = torch.bfloat16
"""Of float32's range, so that no layer's values are too large or too small for it. Its rounding (at most 0.4 %)
costs nothing: numbers are divided by the rounded scale, so the largest is 127.5 at most, half a step off."""


class EightBitLayer(DynamicLayer):  # type: ignore[misc]
    """int8, with scales for groups of numbers of one token and head: ``keys`` and ``values`` are (batch, heads,
    tokens, head size), their scales (batch, heads, tokens, groups). A number is off by half a step at most, a step
    being 1/127 of the largest of its group. Every token is read back from 8 bit, the newest too: what is fed in
    pieces equals what is fed at once.
    """

    key_scales: torch.Tensor
    value_scales: torch.Tensor

    def lazy_initialization(self, key_states: torch.Tensor, *others: torch.Tensor) -> None:
        super().lazy_initialization(key_states, *others)
        values = others[0] if others else key_states
        self.keys, self.key_scales = pack(key_states[..., :0, :])
        self.values, self.value_scales = pack(values[..., :0, :])

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keep the new tokens; returns all keys and values in the model's dtype."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        keys, key_scales = pack(key_states)
        values, value_scales = pack(value_states)
        self.keys = torch.cat([self.keys, keys], dim=-2)
        self.key_scales = torch.cat([self.key_scales, key_scales], dim=-2)
        self.values = torch.cat([self.values, values], dim=-2)
        self.value_scales = torch.cat([self.value_scales, value_scales], dim=-2)
        return (
            unpack(self.keys, self.key_scales, key_states.dtype),
            unpack(self.values, self.value_scales, value_states.dtype),
        )

    def crop(self, tokens_to_remove: int) -> None:
        """Negative: forget that many of the last tokens."""
        super().crop(tokens_to_remove)
        if self.is_initialized:
            self.key_scales = self.key_scales[..., : self.get_seq_length(), :]
            self.value_scales = self.value_scales[..., : self.get_seq_length(), :]

    def reset(self) -> None:
        """Forget all tokens."""
        if self.is_initialized:
            self.crop(-self.get_seq_length())


def pack(states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 of the same shape, and the scales of the groups in its last dimension."""
    size = states.shape[-1]
    wide = states.float().unflatten(-1, (size // group(size), group(size)))  # type: ignore[no-untyped-call]
    scales = (wide.abs().amax(dim=-1, keepdim=True) / LEVELS).to(SCALE_TYPE)
    steps = scales.float().clamp_min_(torch.finfo(torch.float32).tiny)  # a token of zeros stays zeros
    return (wide / steps).round_().clamp_(-LEVELS, LEVELS).to(torch.int8).flatten(-2), scales.squeeze(-1)


def unpack(packed: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The numbers again. int8 is exact in every float of 16 bit; one tensor is made, not two."""
    wide = packed.to(dtype)
    wide.view(*scales.shape, -1).mul_(scales.to(dtype).unsqueeze(-1))
    return wide
