"""Whole layers spread over several GPUs, uneven ones too: each GPU runs its range of layers in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from llmchat.domain.memory import CPU, gib
from llmchat.domain.placing import checks, fill, outcome, rooms
from llmchat.domain.placing.case import Case, Strategy
from llmchat.domain.placing.fill import Space, Sums
from llmchat.domain.placing.rooms import Room
from llmchat.domain.plan import Plan, Proposal, Refusal
from llmchat.domain.words import at

NAME = "multi-gpu"
BALANCE_STEPS = 12
"""Halvings in the search for the smallest share of every GPU that is enough."""
MOST_GPUS = 16
"""That are offered as enough."""


@dataclass(frozen=True)
class Spread:
    """Layers by GPU, and the numbers of the GPUs that hold front and back."""

    counts: Sequence[int]
    front: int
    back: int


def propose(case: Case) -> Proposal:
    """On as few GPUs as will do, the preferred, the fastest, the roomiest ones."""
    if refusal := checks.no_gpu(case, NAME) or checks.not_quantizable(case, NAME) or _too_few(case):
        return refusal
    if case.ram < 0:
        return outcome.short(case, NAME, CPU, -case.ram)
    usable = [room for room in case.gpus if _can_hold_any(room, case)]
    return _spread_out(case, usable) or _short(case, usable)


def _largest(case: Case) -> Space:
    """Bytes of the largest layer, in either phase."""
    layers = case.blocks.layers
    return Space(max(layer.weights for layer in layers), max(layer.size for layer in layers))


def _can_hold_any(room: Room, case: Case) -> bool:
    """A GPU without room for the largest layer takes no part."""
    return room.space.holds(_largest(case))


def _too_few(case: Case) -> Refusal | None:
    if len(case.gpus) < 2:
        return checks.refused(case, NAME, "There is only one GPU that could take part.")
    if len(case.blocks.layers) < 2:
        return checks.refused(case, NAME, "The model has no layers that could lie apart.")
    return None


def _spread_out(case: Case, usable: Sequence[Room]) -> Plan | None:
    sums = fill.prefix([layer.space for layer in case.blocks.layers])
    best = rooms.best(usable)
    for count in range(2, len(best) + 1):
        chosen = rooms.by_speed(best[:count])
        if sum(room.space.running for room in chosen) < case.blocks.size:
            continue
        found = _spread(case, sums, chosen)
        if found and _alike(chosen):
            found = _balanced(case, sums, chosen, found)
        if found:
            return _plan(case, chosen, found)
    return None


def _alike(chosen: Sequence[Room]) -> bool:
    """Whether it is all the same on which of them a layer lies: then each is filled to about the same share. Else
    the best are filled first."""
    return len({(room.preference, room.bandwidth) for room in chosen}) == 1


def _spread(case: Case, sums: Sums, chosen: Sequence[Room]) -> Spread | None:
    sizes = [room.space for room in chosen]
    for front, back in _ends(len(chosen)):
        counts = _fill(case, sums, sizes, front, back)
        if counts:
            return Spread(counts, front, back)
    return None


def _ends(count: int) -> Iterator[tuple[int, int]]:
    """Where front and back may lie: first and last as they run, else anywhere, for a hidden state is tiny."""
    for front in range(count):
        for back in reversed(range(count)):
            yield front, back


def _left(case: Case, sizes: Sequence[Space], front: int, back: int) -> list[Space] | None:
    """Room for layers once front and back are placed; None where those do not fit."""
    left = list(sizes)
    left[front] = left[front].minus(case.blocks.front.space)
    left[back] = left[back].minus(case.blocks.back.space)
    return None if left[front].negative or left[back].negative else left


def _fill(case: Case, sums: Sums, sizes: Sequence[Space], front: int, back: int) -> Sequence[int] | None:
    left = _left(case, sizes, front, back)
    layers = len(case.blocks.layers)
    return fill.fill(sums, left, layers, layers - 1) if left else None


def _balanced(case: Case, sums: Sums, chosen: Sequence[Room], found: Spread) -> Spread:
    """The same with the smallest share of every room that is enough."""
    low, high, best = 0.0, 1.0, found
    for _ in range(BALANCE_STEPS):
        share = (low + high) / 2
        counts = _fill(case, sums, [room.space.share(share) for room in chosen], found.front, found.back)
        if counts:
            high, best = share, Spread(counts, found.front, found.back)
        else:
            low = share
    return best


def _plan(case: Case, chosen: Sequence[Room], spread: Spread) -> Plan:
    devices = [room.device for room in chosen]
    homes = [device for device, count in zip(devices, spread.counts, strict=True) for _ in range(count)]
    parts = [
        (case.blocks.front, devices[spread.front]),
        *zip(case.blocks.layers, homes, strict=True),
        (case.blocks.back, devices[spread.back]),
    ]
    used = {device for _, device in parts}
    words = ", ".join(
        f"{count} {at(device)}" for device, count in zip(devices, spread.counts, strict=True) if count
    )
    return outcome.plan(
        case,
        NAME,
        "resident",
        parts,
        devices[spread.front],
        [room for room in chosen if room.device in used],
        (f"{len(case.blocks.layers)} layers in turn: {words}",),
    )


def _short(case: Case, usable: Sequence[Room]) -> Refusal:
    """The smallest amount that would do on one GPU, beside those that are usable as they are."""
    if not usable:
        return _all_short(case)
    amounts = []
    sums = fill.prefix([layer.space for layer in case.blocks.layers])
    for grown in case.gpus:
        chosen = rooms.by_speed({*usable, grown})
        amount = _missing(case, sums, chosen, chosen.index(grown)) if len(chosen) > 1 else None
        if amount is not None:
            amounts.append((max(amount, grown.space.lacks(_largest(case))), grown.gpu.index, grown.device))
    amount, _, device = min(amounts)
    return outcome.short(case, NAME, device, amount, _together(case))


def _all_short(case: Case) -> Refusal:
    """No GPU has room for a layer: the roomiest would need all but the layer that another must take."""
    blocks = case.blocks
    ends = (blocks.layers[0].space, blocks.layers[-1].space)
    least = min((blocks.space.minus(end) for end in ends), key=lambda need: need.running)
    amounts = [(max(room.space.lacks(least), room.space.lacks(_largest(case))), room) for room in case.gpus]
    missing, roomiest = min(amounts, key=lambda pair: (pair[0], pair[1].gpu.index))
    return outcome.short(case, NAME, roomiest.device, missing, _together(case))


def _together(case: Case) -> str:
    whole = case.blocks.size + sum(room.compute(0) for room in case.gpus)
    have = sum(room.capacity for room in case.gpus)
    return f"The {len(case.gpus)} GPUs together have {gib(have)} for the {gib(whole)} that are needed."


def _missing(case: Case, sums: Sums, chosen: Sequence[Room], grown: int) -> int | None:
    """Bytes that GPU number ``grown`` lacks, wherever front and back lie; None where it would have to hold all."""
    most = len(case.blocks.layers) - 1
    spaces = [room.space for room in chosen]
    found = []
    for front, back in _ends(len(chosen)):
        left = list(spaces)
        left[front] = left[front].minus(case.blocks.front.space)
        left[back] = left[back].minus(case.blocks.back.space)
        if all(end == grown or not left[end].negative for end in (front, back)):
            found.append(fill.missing(sums, left, grown, most + 1, most))
    return min((amount for amount in found if amount is not None), default=None)


def more_that_are_enough(case: Case) -> tuple[int, Room] | None:
    """How many more GPUs like the roomiest one would hold the model on GPUs alone, and that one; None where even
    MOST_GPUS would not, and where there is none. 0: those that are there do."""
    if not case.gpus or not case.blocks.layers:
        return None
    model = max(case.gpus, key=lambda room: (room.gpu.total, -room.gpu.index))
    full = msgspec.structs.replace(model.gpu, free=model.gpu.total)
    like = replace(model, gpu=full, capacity=full.total)
    there = [room for room in case.gpus if _can_hold_any(room, case)]
    if not _can_hold_any(like, case):
        return None
    sums = fill.prefix([layer.space for layer in case.blocks.layers])
    for more in range(MOST_GPUS):
        if _spread(case, sums, [*there, *[like] * more]):
            return more, like
    return None


STRATEGY = Strategy(NAME, "whole layers spread over several GPUs", propose)
