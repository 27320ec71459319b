"""Keys and values in RAM, pinned where that is possible; each layer's part passes through its GPU.

Why not transformers' ``DynamicCache(offloading=True)``: after every token it sends the whole layer back, into
memory that is not pinned, allocated anew, and it needs a GPU. Here a layer's cache travels one way only; what goes
back are the new tokens' keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

from llmchat.domain.kv import BLOCK
from llmchat.engine.kv.lane import Fetched, Lanes


class RamLayer(DynamicLayer):  # type: ignore[misc]
    """``blocks``: number to (tokens, row), a row being one token's keys and values of all heads in a line.
    ``keys`` and ``values`` stay None. On a device that is not a GPU it is transformers' plain layer.

    What ``update`` returns is overwritten when the next but one layer runs. Not for beam search.
    """

    def __init__(
        self,
        lanes: Lanes,
        following: RamLayer | None = None,
        limit: int = 0,
        *,
        also_cpu: bool = False,
    ) -> None:
        """``following``: the layer to fetch next. ``limit``: tokens for which the GPU's buffers are made."""
        super().__init__()
        self.blocks: dict[int, torch.Tensor] = {}
        self._lanes, self._following, self._limit, self._also_cpu = lanes, following, limit, also_cpu
        self._length = 0
        self._away = False
        self._fetched: Fetched | None = None

    def lazy_initialization(self, key_states: torch.Tensor, *others: torch.Tensor) -> None:
        super().lazy_initialization(key_states, *others)
        self._away = key_states.is_cuda or self._also_cpu
        if self._away:
            self.keys = self.values = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keep the new tokens; returns all keys and values, on the device of the new ones."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if not self._away:
            return super().update(key_states, value_states, *args, **kwargs)  # type: ignore[no-any-return]
        new = torch.cat([_rows(key_states), _rows(value_states)], dim=1)
        if not self._length:
            self._keep(new)
            return key_states, value_states
        fetched = self._fetched
        if fetched is None or fetched.length != self._length + len(new):
            fetched = self._fetch(len(new))
        self._fetched = None
        if self._following is not None and self._following._length:
            self._following._fetched = self._following._fetch(len(new))
        rows = _as_rows(fetched.wait(), new, self._length + len(new))
        rows[self._length :] = new
        self._keep(new)
        width = key_states[:, :, 0].numel()
        return _heads(rows[:, :width], key_states), _heads(rows[:, width:], value_states)

    def get_seq_length(self) -> int:
        return self._length if self._away else int(super().get_seq_length())

    def crop(self, tokens_to_remove: int) -> None:
        """Negative: forget that many of the last tokens. Blocks that are empty then are given back."""
        if not self._away:
            super().crop(tokens_to_remove)
            return
        self._length = max(0, self._length - abs(tokens_to_remove))
        self._fetched = None
        for number in [n for n, block in self.blocks.items() if n * len(block) >= self._length]:
            del self.blocks[number]

    def reset(self) -> None:
        if self._away:
            self.crop(-self._length)
        else:
            super().reset()

    def _fetch(self, new: int) -> Fetched:
        row = self.blocks[0][0].nbytes
        length = self._length + new
        return self._lanes.to(self.device).fetch(self._pieces(), length, length * row, self._limit * row)

    def _pieces(self) -> Iterator[torch.Tensor]:
        """What is kept, in order."""
        for number in range(len(self.blocks)):
            block = self.blocks[number]
            yield block[: self._length - number * len(block)]

    def _keep(self, new: torch.Tensor) -> None:
        """Copy rows to the end of what is kept; returns before they are there."""
        tokens = max(1, BLOCK // new[0].nbytes)
        begin = 0
        while begin < len(new):
            number, offset = divmod(self._length, tokens)
            if number not in self.blocks:
                self.blocks[number] = _block(tokens, new)
            count = min(tokens - offset, len(new) - begin)
            target = self.blocks[number][offset : offset + count]
            target.copy_(new[begin : begin + count], non_blocking=True)
            self._length += count
            begin += count


def _block(tokens: int, like: torch.Tensor) -> torch.Tensor:
    """In RAM. Pinned, unless the system does not give so much of that: then copies take longer."""
    size = max(BLOCK, like[0].nbytes)
    try:
        block = torch.empty(size, dtype=torch.uint8, pin_memory=like.is_cuda)
    except RuntimeError:
        block = torch.empty(size, dtype=torch.uint8)
    return _as_rows(block, like, tokens)


def _rows(states: torch.Tensor) -> torch.Tensor:
    """(batch, heads, tokens, head size) as (tokens, everything else)."""
    return states.permute(2, 0, 1, 3).flatten(1)


def _heads(rows: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The inverse of ``_rows``, a view; batch, heads and head size of ``like``."""
    batch, heads, _, size = like.shape
    return rows.view(len(rows), batch, heads, size).permute(1, 2, 0, 3)


def _as_rows(buffer: torch.Tensor, like: torch.Tensor, length: int) -> torch.Tensor:
    """The beginning of a buffer of bytes as (length, row), a row as ``like`` has them."""
    size = length * like[0].nbytes
    return buffer[:size].view(like.dtype).view(length, like.shape[1])
