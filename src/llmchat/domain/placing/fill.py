"""Contiguous ranges of layers over devices of given room. Bytes only; knows no device.

Room is counted twice: while the model is loaded there is no KV cache yet, but copies of what is being loaded;
while it runs it is the other way round. Both must do.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple


class Space(NamedTuple):
    """Bytes that a device has, or that something takes there, in the two phases."""

    loading: int
    running: int

    def plus(self, other: Space) -> Space:
        return Space(self.loading + other.loading, self.running + other.running)

    def minus(self, other: Space) -> Space:
        return Space(self.loading - other.loading, self.running - other.running)

    def holds(self, other: Space) -> bool:
        return self.loading >= other.loading and self.running >= other.running

    def lacks(self, other: Space) -> int:
        """Bytes by which it is too small for ``other``; 0 or less when it is not."""
        return max(other.loading - self.loading, other.running - self.running)

    def share(self, part: float) -> Space:
        return Space(int(self.loading * part), int(self.running * part))

    @property
    def negative(self) -> bool:
        return self.loading < 0 or self.running < 0


class Sums(NamedTuple):
    """Of the first 0, 1, 2, ... layers, by phase."""

    loading: Sequence[int]
    running: Sequence[int]

    def between(self, start: int, end: int) -> Space:
        return Space(self.loading[end] - self.loading[start], self.running[end] - self.running[start])


def prefix(sizes: Sequence[Space]) -> Sums:
    loading = accumulate((size.loading for size in sizes), initial=0)
    return Sums(list(loading), list(accumulate((size.running for size in sizes), initial=0)))


def fill(sums: Sums, rooms: Sequence[Space], end: int, most: int) -> list[int] | None:
    """How many of the first ``end`` layers go into each room, in order, at most ``most`` into one; None when they
    do not all fit. Each room takes as many as it can, which finds a way whenever this order of rooms has one."""
    start = 0
    counts = []
    for room in rooms:
        stop = _take(sums, start, room, end, most)
        counts.append(stop - start)
        start = stop
    return counts if start == end else None


def missing(sums: Sums, rooms: Sequence[Space], grown: int, end: int, most: int) -> int | None:
    """Bytes by which room number ``grown`` is too small for the first ``end`` layers, the others taking what they
    can from both ends; None when ``grown`` would have to take more than ``most`` layers."""
    left = 0
    for room in rooms[:grown]:
        left = _take(sums, left, room, end, most)
    right = end
    for room in reversed(rooms[grown + 1 :]):
        right = max(_take_back(sums, left, right, room), right - most, left)
    if right - left > most:
        return None
    return rooms[grown].lacks(sums.between(left, right))


def _take(sums: Sums, start: int, room: Space, end: int, most: int) -> int:
    """The end of the longest range from ``start`` that fits ``room``."""
    if room.negative:
        return start
    loading = bisect_right(sums.loading, sums.loading[start] + room.loading, start, end + 1) - 1
    running = bisect_right(sums.running, sums.running[start] + room.running, start, end + 1) - 1
    return min(loading, running, start + most)


def _take_back(sums: Sums, left: int, right: int, room: Space) -> int:
    """The start of the longest range up to ``right`` that fits ``room``."""
    if room.negative:
        return right
    loading = bisect_left(sums.loading, sums.loading[right] - room.loading, left, right + 1)
    return max(loading, bisect_left(sums.running, sums.running[right] - room.running, left, right + 1))
