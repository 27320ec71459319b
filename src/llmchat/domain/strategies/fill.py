"""Contiguous ranges of layers over devices of given room. Bytes only; knows no device."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate


def prefix(sizes: Sequence[int]) -> list[int]:
    """Sums of the first 0, 1, 2, ... sizes."""
    return list(accumulate(sizes, initial=0))


def fill(sums: Sequence[int], rooms: Sequence[int], end: int, most: int) -> list[int] | None:
    """How many of the first ``end`` layers go into each room, in order, at most ``most`` into one; None when they
    do not all fit. Each room takes as many as it can, which finds a way whenever this order of rooms has one."""
    start = 0
    counts = []
    for room in rooms:
        stop = _take(sums, start, room, end, most)
        counts.append(stop - start)
        start = stop
    return counts if start == end else None


def missing(sums: Sequence[int], rooms: Sequence[int], grown: int, end: int, most: int) -> int | None:
    """Bytes by which room number ``grown`` is too small for the first ``end`` layers, the others taking what they
    can from both ends; None when ``grown`` would have to take more than ``most`` layers."""
    left = 0
    for room in rooms[:grown]:
        left = _take(sums, left, room, end, most)
    right = end
    for room in reversed(rooms[grown + 1 :]):
        lowest = bisect_left(sums, sums[right] - max(0, room), left, right + 1)
        right = max(lowest, right - most, left)
    if right - left > most:
        return None
    return sums[right] - sums[left] - rooms[grown]


def _take(sums: Sequence[int], start: int, room: int, end: int, most: int) -> int:
    """The end of the longest range from ``start`` that fits ``room``."""
    if room < 0:
        return start
    return min(bisect_right(sums, sums[start] + room, start, end + 1) - 1, start + most)
