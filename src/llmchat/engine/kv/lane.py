"""The way from RAM to one GPU: two buffers there, and a stream of its own that fills one while one is read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import torch

from llmchat.domain.kv import BUFFERS

GROWTH = 1.25
"""By which a buffer grows that turned out too small: each size anew would leave holes in the allocator."""


class Fetched:
    """Rows on their way."""

    def __init__(self, buffer: torch.Tensor, length: int, event: Any) -> None:
        self.length = length
        """Rows that were asked for."""
        self._buffer, self._event = buffer, event

    def wait(self) -> torch.Tensor:
        """The whole buffer, bytes; what is computed on its device from now on finds the rows at its beginning."""
        if self._event is not None:
            torch.cuda.current_stream(self._buffer.device).wait_event(self._event)
        return self._buffer


class Lane:
    """Only the two latest ``Fetched`` hold what they say."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._buffers: list[torch.Tensor | None] = [None] * BUFFERS
        self._turn = 0

    def fetch(self, pieces: Iterable[torch.Tensor], length: int, needed: int, planned: int) -> Fetched:
        """Copy ``pieces`` (contiguous, in RAM) one after the other into a buffer of at least ``needed`` bytes;
        ``planned``: bytes that it will need to have. Returns at once."""
        self._turn = (self._turn + 1) % BUFFERS
        buffer = self._room(needed, planned)
        if self._stream is not None:
            # Attention that reads this buffer's older rows is under way; new rows are on their way to RAM.
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream) if self._stream is not None else contextlib.nullcontext():
            begin = 0
            for piece in pieces:
                flat = piece.view(torch.uint8).view(-1)
                buffer[begin : begin + flat.numel()].copy_(flat, non_blocking=True)
                begin += flat.numel()
        event = self._stream.record_event() if self._stream is not None else None
        return Fetched(buffer, length, event)

    def _room(self, needed: int, planned: int) -> torch.Tensor:
        old = self._buffers[self._turn]
        if old is not None and old.numel() >= max(needed, planned):
            return old
        size = max(planned, needed if old is None else int(needed * GROWTH))
        self._buffers[self._turn] = old = None  # its memory can serve the new one
        new = torch.empty(size, dtype=torch.uint8, device=self._device)
        if self._stream is not None:
            new.record_stream(self._stream)
        self._buffers[self._turn] = new
        return new


class Lanes:
    """One for each device, made when first used."""

    def __init__(self) -> None:
        self._lanes: dict[torch.device, Lane] = {}

    def to(self, device: torch.device) -> Lane:
        if device not in self._lanes:
            self._lanes[device] = Lane(device)
        return self._lanes[device]
