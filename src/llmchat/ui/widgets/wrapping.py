"""Styled text broken into lines by cells, with wide characters and emoji kept whole. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

Line = list[Segment]
"""Segments of one line of the screen; none of them holds a line break."""

_CJK = r"\u2e80-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_CLOSING = r"\u3001\u3002\u3009\u300b\u300d\u300f\u3011\u3015\uff01\uff09\uff0c\uff0e\uff1a\uff1b\uff1f"
_PIECE = re.compile(rf"[{_CJK}][{_CLOSING}]* *|[^ {_CJK}]+ *| +")
"""What may not be broken, with the spaces after it: a word, or one Chinese or Japanese character."""


def _breaks(text: str, width: int) -> list[int]:
    """Offsets in ``text`` at which a new line of at most ``width`` cells starts, between words where possible."""
    if len(text) * 2 <= width or cell_len(text) <= width:
        return []
    offsets: list[int] = []
    used = 0
    for match in _PIECE.finditer(text):
        piece = match[0]
        bare = cell_len(piece.rstrip(" "))
        if used and used + bare > width:
            offsets.append(match.start())
            used = 0
        if bare <= width:
            used += cell_len(piece)
            continue
        parts = chop_cells(piece, max(2, width))
        at = match.start()
        for part in parts[:-1]:
            at += len(part)
            offsets.append(at)
        used = cell_len(parts[-1])
    return offsets


def _cut(line: Sequence[Segment], offsets: Sequence[int]) -> list[Line]:
    """Divide ``line`` at character ``offsets`` (ascending)."""
    lines: list[Line] = [[]]
    at, pending = 0, iter(offsets)
    cut = next(pending, None)
    for text, style, _ in line:
        start = 0
        while cut is not None and cut < at + len(text):
            if cut - at > start:
                lines[-1].append(Segment(text[start : cut - at], style))
            lines.append([])
            start = cut - at
            cut = next(pending, None)
        if text[start:]:
            lines[-1].append(Segment(text[start:], style))
        at += len(text)
    return lines


def _hard_lines(runs: Iterable[Segment]) -> list[Line]:
    """Divide at line breaks, which are left out."""
    lines: list[Line] = [[]]
    for text, style, _ in runs:
        first, *rest = text.split("\n")
        if first:
            lines[-1].append(Segment(first, style))
        lines += [[Segment(part, style)] if part else [] for part in rest]
    return lines


def _trim(line: Line) -> Line:
    """Without the spaces at its end."""
    while line:
        text, style, _ = line[-1]
        bare = text.rstrip(" ")
        if bare == text:
            break
        line.pop()
        if bare:
            line.append(Segment(bare, style))
            break
    return line


def wrap(runs: Iterable[Segment], width: int) -> list[Line]:
    """Lines of at most ``width`` cells, broken between words; a word that is longer is folded."""
    wrapped: list[Line] = []
    for line in _hard_lines(runs):
        offsets = _breaks("".join(segment.text for segment in line), width)
        wrapped += [_trim(part) for part in _cut(line, offsets)] if offsets else [line]
    return wrapped


def fold(line: Line, width: int) -> list[Line]:
    """For code: as ``wrap``, of one line, and no space is lost."""
    offsets = _breaks("".join(segment.text for segment in line), width)
    return _cut(line, offsets) if offsets else [line]


def cells(line: Iterable[Segment]) -> int:
    return sum(cell_len(segment.text) for segment in line)


def fit(text: str, width: int) -> str:
    """``text`` on ``width`` cells at most, its end cut off with an ellipsis."""
    if cell_len(text) <= width:
        return text
    return (chop_cells(text, max(2, width - 1))[0].rstrip() + "…") if width > 1 else ""


def pad(line: Line, width: int, style: Style) -> Line:
    """Filled up with spaces to ``width`` cells."""
    missing = width - cells(line)
    return [*line, Segment(" " * missing, style)] if missing > 0 else line


def strips(lines: Iterable[Line]) -> list[Strip]:
    return [Strip(line) for line in lines]
