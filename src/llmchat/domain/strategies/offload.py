"""As many layers as fit stay on the GPUs, the others are moved to one GPU when their turn comes.

Levels go from nothing offloaded to the whole model, by the bytes that move; the first that fits is taken.
The KV cache of an offloaded layer stays on the main GPU, which executes it; so does the room for copies in flight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from llmchat.domain.strategies import fill
from llmchat.domain.strategies.blocks import Block, Blocks
from llmchat.domain.strategies.rooms import Room

STAGED_LAYERS = 2
"""Copies of offloaded layers on the main GPU: the one that runs, and the blocks that torch's allocator still keeps
of the one before (a prefetching runner has the next one there)."""


@dataclass(frozen=True)
class Level:
    """What is offloaded: the last ``layers`` layers, and perhaps what lies behind them or before."""

    layers: int
    back: bool = False
    front: bool = False


@dataclass(frozen=True)
class Split:
    main: Room
    kept: tuple[tuple[Block, Room], ...]
    offloaded: tuple[Block, ...]
    """In execution order."""
    staging: int
    """Bytes on the main GPU."""


@dataclass(frozen=True)
class Shortfall:
    room: Room
    missing: int


@dataclass(frozen=True)
class Search:
    blocks: Blocks
    gpus: tuple[Room, ...]

    @cached_property
    def _sums(self) -> list[int]:
        return fill.prefix([layer.size for layer in self.blocks.layers])

    @cached_property
    def _kv_behind(self) -> list[int]:
        """KV bytes of the last 0, 1, 2, ... layers."""
        return fill.prefix([layer.kv for layer in reversed(self.blocks.layers)])

    @cached_property
    def _largest_behind(self) -> list[int]:
        """Bytes of the largest of the last 0, 1, 2, ... layers."""
        return list(accumulate((layer.weights for layer in reversed(self.blocks.layers)), max, initial=0))

    @cached_property
    def _mains(self) -> list[Room]:
        """The roomiest first."""
        return sorted(self.gpus, key=lambda room: (-room.room, room.gpu.index))

    def run(self) -> Split | Shortfall:
        """The lowest level that fits the GPUs; else the smallest amount that would do on one of them."""
        levels = self._levels
        together = sum(max(0, room.room) for room in self.gpus)
        layers = len(self.blocks.layers)
        for level in levels:
            if self._sums[layers - level.layers] + self._on_main(level) > together:
                continue
            for main in self._mains:
                counts = self._fits(level, main)
                if counts is not None:
                    return self._split(level, main, counts)
        shortfalls = (Shortfall(main, self._missing(level, main)) for level in levels for main in self._mains)
        return min(shortfalls, key=lambda shortfall: shortfall.missing)

    @cached_property
    def _levels(self) -> list[Level]:
        """What moves least comes first."""
        blocks = self.blocks
        behind = fill.prefix([layer.weights for layer in reversed(blocks.layers)])
        ends = ((False, False), (True, False), (False, True), (True, True))
        levels = [Level(count, back, front) for count in range(len(behind)) for back, front in ends]
        return sorted(
            levels,
            key=lambda level: (
                behind[level.layers] + level.back * blocks.back.weights + level.front * blocks.front.weights
            ),
        )

    def _on_main(self, level: Level) -> int:
        """Bytes that the main GPU needs at this level beside the layers that stay."""
        blocks = self.blocks
        back = blocks.back.kv if level.back else blocks.back.size
        front = blocks.front.kv if level.front else blocks.front.size
        return front + back + self._kv_behind[level.layers] + self._staging(level)

    def _staging(self, level: Level) -> int:
        blocks = self.blocks
        return max(
            STAGED_LAYERS * self._largest_behind[level.layers],
            blocks.back.largest if level.back else 0,
            blocks.front.largest if level.front else 0,
        )

    def _rooms(self, main: Room) -> list[Room]:
        return [main, *(room for room in self.gpus if room is not main)]

    def _fits(self, level: Level, main: Room) -> list[int] | None:
        """Layers that stay, by GPU, the main one first."""
        kept = len(self.blocks.layers) - level.layers
        rooms = self._rooms(main)
        left = [room.room for room in rooms]
        left[0] -= self._on_main(level)
        return fill.fill(self._sums, left, kept, kept) if left[0] >= 0 else None

    def _missing(self, level: Level, main: Room) -> int:
        """Bytes that ``main`` lacks for this level."""
        kept = len(self.blocks.layers) - level.layers
        left = [room.room for room in self._rooms(main)]
        left[0] -= self._on_main(level)
        amount = fill.missing(self._sums, left, 0, kept, kept)
        assert amount is not None  # the main GPU may take all that are kept
        return amount

    def _split(self, level: Level, main: Room, counts: Sequence[int]) -> Split:
        blocks = self.blocks
        homes = [room for room, count in zip(self._rooms(main), counts, strict=True) for _ in range(count)]
        return Split(
            main=main,
            kept=(
                *(() if level.front else ((blocks.front, main),)),
                *zip(blocks.layers, homes, strict=False),
                *(() if level.back else ((blocks.back, main),)),
            ),
            offloaded=(
                *((blocks.front,) if level.front else ()),
                *blocks.layers[len(homes) :],
                *((blocks.back,) if level.back else ()),
            ),
            staging=self._staging(level),
        )
