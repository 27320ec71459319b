"""A drawn line dressed for the screen: the bar at its left, what the mouse selected, keys at its right."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip

BAR = "┃"
GUTTER = 2
"""Cells left of every line: the bar and a space."""
KEPT = 512


@dataclass(frozen=True)
class Dress:
    """What comes to a line besides its text."""

    base: Style
    """Colours of the widget, under all that has none of its own."""
    bar: Style | None = None
    hint: str = ""
    """At the right end, where there is room."""
    hint_style: Style | None = None
    marked: tuple[int, int] | None = None
    """First and last character that the mouse selected; -1 is the end."""
    mark_style: Style | None = None


class Dresser:
    """Dressed lines, kept by line number: most frames show the same ones again."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Strip, Dress, int, Strip]] = {}

    def dress(self, y: int, strip: Strip, dress: Dress, width: int) -> Strip:
        """``strip`` as line ``y`` of a transcript that is ``width`` cells wide, gutter included."""
        kept = self._kept.get(y)
        if kept and kept[0] is strip and kept[1] == dress and kept[2] == width:
            return kept[3]
        if len(self._kept) >= KEPT:
            self._kept.clear()
        dressed = _dress(y, strip, dress, width)
        self._kept[y] = (strip, dress, width, dressed)
        return dressed


def _dress(y: int, strip: Strip, dress: Dress, width: int) -> Strip:
    content = strip.apply_offsets(0, y)
    if dress.marked:
        content = _marked(content, *dress.marked, dress.mark_style)
    bar = Segment(f"{BAR} " if dress.bar else " " * GUTTER, dress.bar)
    segments = [bar, *content]
    missing = width - GUTTER - strip.cell_length
    if dress.hint and missing > cell_len(dress.hint) + 2:
        segments.append(Segment(" " * (missing - cell_len(dress.hint) - 1)))
        segments.append(Segment(dress.hint, dress.hint_style))
    return Strip(Segment.apply_style(segments, dress.base)).adjust_cell_length(width, dress.base)


def _marked(strip: Strip, start: int, end: int, style: Style | None) -> Strip:
    """With characters ``start`` to ``end`` in ``style``."""
    segments: list[Segment] = []
    at = 0
    for text, own, _ in strip:
        first, last = max(0, start - at), len(text) if end < 0 else max(0, min(len(text), end - at))
        if first < last:
            marked = own + style if own and style else style
            parts = ((text[:first], own), (text[first:last], marked), (text[last:], own))
            segments += [Segment(part, each) for part, each in parts if part]
        else:
            segments.append(Segment(text, own))
        at += len(text)
    return Strip(segments)


def extract(lines: list[str], first: int, selection: Selection) -> str:
    """The selected part of ``lines``, of which the first is line ``first``."""
    picked = []
    for y, text in enumerate(lines, first):
        span = selection.get_span(y)
        if span is not None:
            start, end = span
            picked.append(text[start : None if end < 0 else end].rstrip())
    return "\n".join(picked)
