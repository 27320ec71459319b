"""As many layers as fit stay on the GPUs, the others are moved to one GPU when their turn comes.

Levels go from nothing offloaded to the whole model, by the bytes that move; the first that fits is taken. Where
layers differ in size, one behind the border may still fit somewhere: it stays, too.
The KV cache of an offloaded layer stays on the main GPU, which executes it; so does the room for copies in flight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from llmchat.domain.placing import fill, rooms
from llmchat.domain.placing.blocks import Block, Blocks
from llmchat.domain.placing.fill import Space, Sums
from llmchat.domain.placing.rooms import Room
from llmchat.domain.speed import rates

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

    @property
    def rooms(self) -> list[Room]:
        """Of the GPUs that take part."""
        return list({room.device: room for room in (self.main, *(room for _, room in self.kept))}.values())


@dataclass(frozen=True)
class Shortfall:
    room: Room
    missing: int


@dataclass(frozen=True)
class Search:
    blocks: Blocks
    gpus: tuple[Room, ...]

    @cached_property
    def _sums(self) -> Sums:
        return fill.prefix([layer.space for layer in self.blocks.layers])

    @cached_property
    def _kv_behind(self) -> list[int]:
        """KV bytes of the last 0, 1, 2, ... layers."""
        return list(accumulate((layer.kv for layer in reversed(self.blocks.layers)), initial=0))

    @cached_property
    def _largest_behind(self) -> list[int]:
        """Bytes of the largest of the last 0, 1, 2, ... layers."""
        return list(accumulate((layer.weights for layer in reversed(self.blocks.layers)), max, initial=0))

    @cached_property
    def _order(self) -> list[Room]:
        """In which GPUs are filled."""
        return rooms.by_speed(self.gpus)

    @cached_property
    def _mains(self) -> list[Room]:
        """The best reached from RAM first."""
        return sorted(self._order, key=lambda room: (room.preference, -rates.pageable(room.gpu)))

    def run(self) -> Split | Shortfall:
        """The lowest level that fits the GPUs; else the smallest amount that would do on one of them."""
        levels = self._levels
        together = sum(max(0, room.space.running) for room in self.gpus)
        layers = len(self.blocks.layers)
        for level in levels:
            if self._sums.running[layers - level.layers] + self._on_main(level).running > together:
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
        behind = list(accumulate((layer.weights for layer in reversed(blocks.layers)), initial=0))
        ends = ((False, False), (True, False), (False, True), (True, True))
        levels = [Level(count, back, front) for count in range(len(behind)) for back, front in ends]
        return sorted(
            levels,
            key=lambda level: (
                behind[level.layers] + level.back * blocks.back.weights + level.front * blocks.front.weights
            ),
        )

    def _on_main(self, level: Level) -> Space:
        """Bytes that the main GPU needs at this level beside the layers that stay."""
        blocks = self.blocks
        back = Space(0, blocks.back.kv) if level.back else blocks.back.space
        front = Space(0, blocks.front.kv) if level.front else blocks.front.space
        return front.plus(back).plus(Space(0, self._kv_behind[level.layers] + self._staging(level)))

    def _staging(self, level: Level) -> int:
        blocks = self.blocks
        return max(
            STAGED_LAYERS * self._largest_behind[level.layers],
            blocks.back.largest if level.back else 0,
            blocks.front.largest if level.front else 0,
        )

    def _left(self, level: Level, main: Room) -> list[Space]:
        """Room for layers that stay, by GPU in order."""
        needed = self._on_main(level)
        return [room.space.minus(needed) if room is main else room.space for room in self._order]

    def _fits(self, level: Level, main: Room) -> list[int] | None:
        """Layers that stay, by GPU in order."""
        kept = len(self.blocks.layers) - level.layers
        left = self._left(level, main)
        return None if left[self._order.index(main)].negative else fill.fill(self._sums, left, kept, kept)

    def _missing(self, level: Level, main: Room) -> int:
        """Bytes that ``main`` lacks for this level."""
        kept = len(self.blocks.layers) - level.layers
        amount = fill.missing(self._sums, self._left(level, main), self._order.index(main), kept, kept)
        assert amount is not None  # the main GPU may take all that are kept
        return amount

    def _split(self, level: Level, main: Room, counts: Sequence[int]) -> Split:
        blocks = self.blocks
        homes = [room for room, count in zip(self._order, counts, strict=True) for _ in range(count)]
        kept = list(zip(blocks.layers, homes, strict=False))
        slack = dict(zip(self._order, self._left(level, main), strict=True))
        for block, room in kept:
            slack[room] = slack[room].minus(block.space)
        behind = self._topped_up(blocks.layers[len(homes) :], main, slack)
        return Split(
            main=main,
            kept=(
                *(() if level.front else ((blocks.front, main),)),
                *kept,
                *((block, room) for block, room in behind if room),
                *(() if level.back else ((blocks.back, main),)),
            ),
            offloaded=(
                *((blocks.front,) if level.front else ()),
                *(block for block, room in behind if room is None),
                *((blocks.back,) if level.back else ()),
            ),
            staging=self._staging(level),
        )

    def _topped_up(
        self, behind: Sequence[Block], main: Room, slack: dict[Room, Space]
    ) -> list[tuple[Block, Room | None]]:
        """The layers behind the border, with a GPU where one still has room; their KV cache is on ``main`` now."""
        found: list[tuple[Block, Room | None]] = []
        for block in behind:
            there = Space(block.weights, block.weights)  # its KV cache is counted there already
            home = next(
                (room for room in self._order if slack[room].holds(there if room is main else block.space)), None
            )
            if home is not None:
                slack[home] = slack[home].minus(block.space)
                slack[main] = slack[main].plus(Space(0, block.kv))
            found.append((block, home))
        return found
