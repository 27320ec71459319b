"""As many layers as fit stay on the GPUs, the others are moved to one GPU when their turn comes.

Levels go from nothing offloaded over one layer, two layers, ... to the whole model; the first that fits is taken.
The KV cache of an offloaded layer stays on the main GPU, which executes it; so does the room for copies in flight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from llmchat.domain.strategies import fill
from llmchat.domain.strategies.base import Case
from llmchat.domain.strategies.blocks import Block
from llmchat.domain.strategies.rooms import Room

STAGED_LAYERS = 2
"""Copies of offloaded layers on the main GPU: the one that runs, and the blocks that torch's allocator still keeps
of the one before (a prefetching runner has the next one there)."""


@dataclass(frozen=True)
class Level:
    """What is offloaded: the last ``layers`` layers, then what lies behind them, then what lies before."""

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
    case: Case

    @cached_property
    def _sums(self) -> list[int]:
        return fill.prefix([layer.size for layer in self.case.blocks.layers])

    @cached_property
    def _kv_behind(self) -> list[int]:
        """KV bytes of the last 0, 1, 2, ... layers."""
        return fill.prefix([layer.kv for layer in reversed(self.case.blocks.layers)])

    @cached_property
    def _mains(self) -> list[Room]:
        """The roomiest first."""
        return sorted(self.case.gpus, key=lambda room: (-room.room, room.gpu.index))

    def run(self) -> Split | Shortfall:
        """The lowest level that fits the GPUs; else the smallest amount that would do on one of them."""
        levels = list(self._levels())
        for level in levels:
            for main in self._mains:
                counts = self._fits(level, main)
                if counts is not None:
                    return self._split(level, main, counts)
        shortfalls = (Shortfall(main, self._missing(level, main)) for level in levels for main in self._mains)
        return min(shortfalls, key=lambda shortfall: shortfall.missing)

    def _levels(self) -> Iterator[Level]:
        layers = len(self.case.blocks.layers)
        yield from (Level(count) for count in range(layers + 1))
        yield Level(layers, back=True)
        yield Level(layers, back=True, front=True)

    def _on_main(self, level: Level) -> int:
        """Bytes that the main GPU needs at this level beside the layers that stay."""
        blocks = self.case.blocks
        back = blocks.back.kv if level.back else blocks.back.size
        front = blocks.front.kv if level.front else blocks.front.size
        return front + back + self._kv_behind[level.layers] + self._staging(level)

    def _staging(self, level: Level) -> int:
        blocks = self.case.blocks
        moved = blocks.layers[len(blocks.layers) - level.layers :]
        return max(
            STAGED_LAYERS * max((layer.weights for layer in moved), default=0),
            blocks.back.largest if level.back else 0,
            blocks.front.largest if level.front else 0,
        )

    def _rooms(self, main: Room) -> list[Room]:
        return [main, *(room for room in self.case.gpus if room is not main)]

    def _fits(self, level: Level, main: Room) -> list[int] | None:
        """Layers that stay, by GPU, the main one first."""
        kept = len(self.case.blocks.layers) - level.layers
        rooms = self._rooms(main)
        left = [room.room for room in rooms]
        left[0] -= self._on_main(level)
        if left[0] < 0 or sum(max(0, room) for room in left) < self._sums[kept]:
            return None
        return fill.fill(self._sums, left, kept, kept)

    def _missing(self, level: Level, main: Room) -> int:
        """Bytes that ``main`` lacks for this level."""
        kept = len(self.case.blocks.layers) - level.layers
        left = [room.room for room in self._rooms(main)]
        left[0] -= self._on_main(level)
        amount = fill.missing(self._sums, left, 0, kept, kept)
        assert amount is not None  # the main GPU may take all that are kept
        return amount

    def _split(self, level: Level, main: Room, counts: Sequence[int]) -> Split:
        blocks = self.case.blocks
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
