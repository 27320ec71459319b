"""Arithmetic of the memory bars: bytes by kind to whole cells, and the characters they are drawn with. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from llmchat.domain.memory import Account

Kind = Literal["weights", "kv_cache", "compute", "other", "unaccounted", "free"]

KINDS: tuple[Kind, ...] = ("weights", "kv_cache", "compute", "other", "unaccounted", "free")
"""In the order in which a bar stacks them."""

NAMES: dict[Kind, str] = {
    "weights": "weights",
    "kv_cache": "KV cache",
    "compute": "compute",
    "other": "other",
    "unaccounted": "unaccounted",
    "free": "free",
}


FILL: dict[Kind, str] = {
    "weights": "█",
    "kv_cache": "▓",
    "compute": "▒",
    "other": "╱",
    "unaccounted": "?",
    "free": "·",
}
"""Every kind has a character of its own, so that a bar reads without colour."""
LEVELS = "▁▂▃▄▅▆▇█"
"""Of the history, from empty to full."""
DOT = "·"
"""Separates facts on a line."""
LOADED = "●"
BEST = "★"


def share(amounts: Sequence[int], cells: int) -> list[int]:
    """Divide ``cells`` over ``amounts`` in proportion, by largest remainder; the result sums to ``cells``.

    Every amount above 0 gets at least one cell, taken from the largest share, as long as there are cells enough;
    nothing gets a cell when all amounts are 0 or less.
    """
    amounts = [max(0, amount) for amount in amounts]
    total = sum(amounts)
    if total == 0 or cells <= 0:
        return [0] * len(amounts)
    exact = [amount * cells / total for amount in amounts]
    shares = [int(part) for part in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: (shares[i] - exact[i], i))
    for i in by_remainder[: cells - sum(shares)]:
        shares[i] += 1
    for i in sorted(range(len(amounts)), key=lambda i: -amounts[i]):
        largest = max(range(len(shares)), key=lambda j: shares[j])
        if amounts[i] and not shares[i] and shares[largest] > 1:
            shares[largest] -= 1
            shares[i] = 1
    return shares


def segments(account: Account, cells: int) -> list[tuple[Kind, int]]:
    """The kinds of ``account`` and their cells in a bar ``cells`` wide; kinds without a cell are left out."""
    shares = share([getattr(account, kind) for kind in KINDS], cells)
    return [(kind, count) for kind, count in zip(KINDS, shares, strict=True) if count]


def spark(values: Sequence[float], cells: int) -> str:
    """The last ``cells`` of ``values`` (0..1) as one character each, at the right of ``cells`` columns."""
    recent = [min(1.0, max(0.0, value)) for value in values[-cells:]] if cells > 0 else []
    drawn = "".join(LEVELS[min(len(LEVELS) - 1, int(value * len(LEVELS)))] for value in recent)
    return drawn.rjust(max(0, cells))


def thin(values: Sequence[float], cells: int) -> list[float]:
    """At most ``cells`` values: the highest of each of as many equal stretches, so that a peak is not lost."""
    if len(values) <= cells:
        return list(values)
    edges = [round(i * len(values) / cells) for i in range(cells + 1)]
    return [max(values[a:b]) for a, b in pairwise(edges)]
