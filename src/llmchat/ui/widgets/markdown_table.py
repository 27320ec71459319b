"""Tables: columns as wide as they need and the screen allows; a table that cannot fit is written as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.segment import Segment
from rich.style import Style

from llmchat.ui.widgets.wrapping import Line, cells, wrap

Align = Literal["left", "center", "right"]
Row = Sequence[Line]
GAP = " │ "
NARROWEST = 6
"""Cells below which a column is unreadable."""


def table(header: Row, rows: Sequence[Row], aligns: Sequence[Align], width: int, rule: Style) -> list[Line]:
    """Lines of a table of ``width`` cells at most. Every row has as many cells as the header."""
    wanted = [max(_natural(row[i]) for row in [header, *rows]) for i in range(len(header))]
    widths = _share(wanted, width - len(GAP) * (len(header) - 1))
    if widths is None:
        return _records(header, rows, width, rule)
    crossing = Segment("─┼─".join("─" * each for each in widths), rule)
    lines = [*_row(header, widths, aligns, rule), [crossing]]
    tall = False
    for row in rows:
        drawn = _row(row, widths, aligns, rule)
        if tall or (len(drawn) > 1 and row is not rows[0]):
            lines.append(
                [Segment("─┼─".join(" " * each for each in widths).replace("─", " ").replace("┼", "│"), rule)]
            )
        tall = len(drawn) > 1
        lines += drawn
    return lines


def _natural(runs: Line) -> int:
    return max(1, max((cells(line) for line in wrap(runs, 10_000)), default=1))


def _share(wanted: Sequence[int], room: int) -> list[int] | None:
    """Widths that sum to ``room`` at most: narrow columns get all they want, wide ones equal parts of the rest.
    None when a column would become unreadable."""
    widths = [0] * len(wanted)
    left = room
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    for done, i in enumerate(order):
        part = left // (len(order) - done)
        widths[i] = min(wanted[i], part)
        if widths[i] < min(wanted[i], NARROWEST):
            return None
        left -= widths[i]
    return widths


def _row(row: Row, widths: Sequence[int], aligns: Sequence[Align], rule: Style) -> list[Line]:
    columns = [wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines: list[Line] = []
    for number in range(max(len(column) for column in columns)):
        line: Line = []
        for column, width, align in zip(columns, widths, aligns, strict=True):
            if line:
                line.append(Segment(GAP, rule))
            line += _aligned(column[number] if number < len(column) else [], width, align, rule)
        lines.append(line)
    return lines


def _aligned(line: Line, width: int, align: Align, style: Style) -> Line:
    missing = max(0, width - cells(line))
    before = {"left": 0, "center": missing // 2, "right": missing}[align]
    return [Segment(" " * before, style), *line, Segment(" " * (missing - before), style)]


def _records(header: Row, rows: Sequence[Row], width: int, rule: Style) -> list[Line]:
    """One line per cell: ``header: value``; rows are divided by a short rule."""
    lines: list[Line] = []
    for row in rows:
        if lines:
            lines.append([Segment("─" * min(8, width), rule)])
        for name, cell in zip(header, row, strict=True):
            lines += wrap([*name, Segment(": ", rule), *cell], width)
    return lines or [line for name in header for line in wrap(name, width)]
