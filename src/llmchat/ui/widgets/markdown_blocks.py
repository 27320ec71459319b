"""Markdown blocks as lines of a given width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rich.segment import Segment
from rich.style import Style

from llmchat.ui.widgets.code_lines import code_block
from llmchat.ui.widgets.markdown_inline import Inline
from llmchat.ui.widgets.markdown_parse import Node, parse
from llmchat.ui.widgets.markdown_table import Align, table
from llmchat.ui.widgets.transcript_palette import Palette
from llmchat.ui.widgets.wrapping import Line, cells, wrap

BULLETS = ("•", "–")
"""Of the outer list and of the lists in it."""
MARKERS = " >-+*"
NARROWEST = 12
"""Cells: lists and quotes nested more deeply than this allows are not indented further."""


class Blocks:
    """Draws nodes of one parsed text. ``source`` are its lines: blank ones between list items are kept."""

    def __init__(self, source: Sequence[str], palette: Palette, width: int) -> None:
        self._source, self._palette, self._width = source, palette, max(4, width)
        self._inline = Inline(palette)

    def top(self, nodes: Sequence[Node]) -> list[Line]:
        """Top-level blocks, one blank line between two."""
        lines: list[Line] = []
        for node in nodes:
            drawn = self._block(node, self._width, 0, self._palette.text)
            if drawn:
                lines += [[], *drawn] if lines else drawn
        return lines

    def items(self, nodes: Sequence[Node], ordered: bool, start: int) -> list[Line]:
        """Items of a top-level list, the first of them numbered ``start``."""
        return self._items(nodes, ordered, start, self._width, 0, self._palette.text)

    def blank_before(self, node: Node) -> bool:
        """The model left a line free above this block."""
        line = node.map[0] - 1 if node.map else -1
        return 0 <= line < len(self._source) and not self._source[line].strip(" >")

    def _nested(self, nodes: Sequence[Node], width: int, depth: int, style: Style) -> list[Line]:
        lines: list[Line] = []
        for node in nodes:
            drawn = self._block(node, width, depth, style)
            lines += [[], *drawn] if lines and self.blank_before(node) else drawn
        return lines

    def _inside(self, node: Node, width: int, depth: int, style: Style) -> list[Line]:
        """Of a quote or a list item. Nested too deeply to be parsed, it is shown as written."""
        if node.children or not node.map:
            return self._nested(node.children, width, depth, style)
        text = "\n".join(self._source[slice(*node.map)]).strip(MARKERS)
        return wrap([Segment(text, style)], width) if text else []

    def _block(self, node: Node, width: int, depth: int, style: Style) -> list[Line]:
        palette = self._palette
        match node.type:
            case "paragraph":
                return wrap(self._inline.runs(node.children, style), width)
            case "heading":
                return wrap(self._inline.runs(node.children, style + _heading(node.tag, palette)), width)
            case "fence" | "code_block":
                return code_block(node.content, node.info.split()[0] if node.info.strip() else "", palette, width)
            case "bullet_list" | "ordered_list":
                ordered = node.type == "ordered_list"
                start = int(node.attrs.get("start", 1))
                return self._items(node.children, ordered, start, width, depth, style)
            case "blockquote":
                return self._quote(node, width, depth)
            case "table":
                return self._table(node, width, style)
            case "hr":
                return [[Segment("─" * width, palette.muted)]]
            case "math_block" | "math_block_label":
                return wrap([Segment(f"$$ {node.content.strip()} $$", style + palette.math)], width)
            case _:
                return (
                    wrap([Segment(node.content, style)], width)
                    if node.content
                    else self._deeper(node, width, depth)
                )

    def _deeper(self, node: Node, width: int, depth: int) -> list[Line]:
        return self._nested(node.children, width, depth, self._palette.text)

    def _items(
        self, nodes: Sequence[Node], ordered: bool, start: int, width: int, depth: int, style: Style
    ) -> list[Line]:
        lines: list[Line] = []
        for number, node in enumerate(nodes, start):
            marker = f"{number}. " if ordered else f"{BULLETS[min(depth, 1)]} "
            first = Segment(marker.rjust(4) if ordered else f" {marker}", self._palette.muted)
            indent = cells([first]) if width - cells([first]) >= NARROWEST else 0
            body = self._inside(node, width - indent, depth + 1, style) or [[]]
            if lines and self.blank_before(node):
                lines.append([])
            lines += (
                [[first, *line] if row == 0 else _indented(line, indent) for row, line in enumerate(body)]
                if indent
                else body
            )
        return lines

    def _quote(self, node: Node, width: int, depth: int) -> list[Line]:
        bar = Segment("│ ", self._palette.muted)
        indent = 2 if width >= NARROWEST + 2 else 0
        body = self._inside(node, width - indent, depth, self._palette.quote)
        return [[bar, *line] for line in body] if indent else body

    def _table(self, node: Node, width: int, style: Style) -> list[Line]:
        rows = [[self._inline.runs(cell.children, style) for cell in row.children] for row in _rows(node)]
        heads = [cell for row in _rows(node)[:1] for cell in row.children]
        header = [self._inline.runs(cell.children, style + Style(bold=True)) for cell in heads]
        return table(header, rows[1:], [_align(cell) for cell in heads], width, self._palette.muted)


def _indented(line: Line, indent: int) -> Line:
    return [Segment(" " * indent), *line] if line else []


def _rows(node: Node) -> list[Node]:
    return [row for part in node.children for row in part.children]


def _align(cell: Node) -> Align:
    value = str(cell.attrs.get("style", "")).removeprefix("text-align:")
    return cast(Align, value) if value in ("center", "right") else "left"


def _heading(tag: str, palette: Palette) -> Style:
    return palette.heading + Style(underline=True) if tag == "h1" else palette.heading


def markdown(text: str, palette: Palette, width: int) -> list[Line]:
    """The whole of ``text`` (made safe before)."""
    return Blocks(text.split("\n"), palette, width).top(parse(text))
