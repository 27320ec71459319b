"""Text that streams in: lines already settled are drawn once, and only what is still open is drawn again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from llmchat.ui.widgets.safe_text import safe_text
from llmchat.ui.widgets.transcript_palette import Palette
from llmchat.ui.widgets.wrapping import Line, strips, wrap

if TYPE_CHECKING:
    from llmchat.ui.widgets.code_lines import GrowingCode
    from llmchat.ui.widgets.markdown_blocks import Blocks
    from llmchat.ui.widgets.markdown_parse import Node


class GrowingText:
    """``feed`` the whole text so far, as often as wanted; ``strips`` are its lines."""

    def __init__(self, palette: Palette, width: int) -> None:
        self.palette, self.width = palette, width
        self.source = ""
        self.closed: list[Strip] = []
        self.open: list[Strip] = []
        self._lines: list[str] = []
        """Complete source lines of the open part, made safe."""
        self._partial = ""
        self._taken = 0

    @property
    def strips(self) -> list[Strip]:
        return [*self.closed, *self.open]

    def feed(self, source: str) -> bool:
        """Take the text so far. False when it is not a continuation of the last one: then start afresh."""
        if source == self.source:
            return True
        if not source.startswith(self.source):
            return False
        self.source = source
        end = source.rfind("\n") + 1
        if end > self._taken:
            self._lines += safe_text(source[self._taken : end]).split("\n")[:-1]
            self._taken = end
        self._partial = safe_text(source[self._taken :])
        self._draw()
        return True

    def _draw(self) -> None:
        raise NotImplementedError

    def _close(self, lines: Sequence[Line], blank: bool) -> None:
        """Settle ``lines``, after a blank line where ``blank`` and something stands above."""
        if lines:
            self.closed += strips([[], *lines] if blank and self.closed else lines)

    def _show(self, lines: Sequence[Line], blank: bool) -> None:
        """``lines`` are the open part."""
        self.open = strips([[], *lines] if blank and self.closed and lines else lines)


class GrowingPlain(GrowingText):
    """Wrapped lines as they are: thinking, and what the person wrote."""

    def __init__(self, palette: Palette, width: int, style: Style) -> None:
        super().__init__(palette, width)
        self._style = style

    def _draw(self) -> None:
        if self._lines:
            text = "\n".join(self._lines)
            self._lines.clear()
            self._close(wrap([Segment(text, self._style)], self.width), blank=False)
        self._show(wrap([Segment(self._partial, self._style)], self.width) if self._partial else [], blank=False)


class GrowingMarkdown(GrowingText):
    """Markdown. A block is settled when the next one has begun, a list item likewise, a line of code when the
    highlighting of what follows no longer depends on it."""

    def __init__(self, palette: Palette, width: int) -> None:
        super().__init__(palette, width)
        self._code: GrowingCode | None = None
        self._fence = re.compile("")
        self._language = ""
        self._gap = True
        """A blank line goes between what is settled and what is open."""
        self._number: int | None = None
        """Of the first open item, where the items before it are settled."""

    def _draw(self) -> None:
        while not (self._draw_code() if self._code else self._draw_blocks()):
            pass

    # --- blocks ----------------------------------------------------------------------------------------------
    def _draw_blocks(self) -> bool:
        """Settle the blocks that are over, draw the last. False when the rest has to be looked at again."""
        from llmchat.ui.widgets.markdown_blocks import Blocks
        from llmchat.ui.widgets.markdown_parse import parse

        source = [*self._lines, self._partial]
        nodes = parse("\n".join(source))
        blocks = Blocks(source, self.palette, self.width)
        last = nodes[-1] if nodes else None
        if last is None or last.map is None:
            self._show(self._drawn(blocks, nodes), self._gap)
            return True
        if len(nodes) > 1:
            self._close(self._drawn(blocks, nodes[:-1]), self._gap)
            self._drop(last.map[0])
            self._gap, self._number = True, None
            return False
        if last.type in ("bullet_list", "ordered_list") and len(last.children) > 1:
            return self._close_items(blocks, last)
        if last.type == "fence" and self._enter_code(last, source):
            return False
        self._show(self._drawn(blocks, nodes), self._gap)
        return True

    def _drawn(self, blocks: Blocks, nodes: Sequence[Node]) -> list[Line]:
        """``nodes``, the first of them perhaps the rest of a list."""
        if self._number is None or not nodes:
            return blocks.top(nodes)
        rest = blocks.top(nodes[1:])
        first = blocks.items(nodes[0].children, nodes[0].type == "ordered_list", self._number)
        return [*first, [], *rest] if rest else first

    def _close_items(self, blocks: Blocks, node: Node) -> bool:
        """Settle all items but the last."""
        *done, last = node.children
        ordered = node.type == "ordered_list"
        start = self._number if self._number is not None else int(node.attrs.get("start", 1))
        if last.map is None:
            self._show(blocks.items(node.children, ordered, start), self._gap)
            return True
        gap = blocks.blank_before(last)
        self._close(blocks.items(done, ordered, start), self._gap)
        self._drop(last.map[0])
        self._gap, self._number = gap, start + len(done)
        return False

    def _drop(self, count: int) -> None:
        del self._lines[:count]

    # --- code ------------------------------------------------------------------------------------------------
    def _enter_code(self, node: Node, source: Sequence[str]) -> bool:
        """Begin to draw by lines, where the block is open and its first line complete."""
        from llmchat.ui.widgets.code_lines import GrowingCode, label

        first = node.map[0] if node.map else 0
        fence = re.compile(rf" {{0,3}}{re.escape(node.markup[0])}{{{len(node.markup)},}} *$")
        closed = any(fence.match(line) for line in source[first + 1 :])
        if closed or len(self._lines) <= first:
            return False
        self._language = node.info.split()[0].lower() if node.info.strip() else ""
        self._code, self._fence = GrowingCode(self._language), fence
        title = node.info.split()[0] if self._language else ""
        if self._gap and self.closed:
            self.closed.append(Strip([]))
        self._close(label(title, self.palette, self.width), blank=False)
        self._drop(first + 1)
        return True

    def _draw_code(self) -> bool:
        """Settle complete lines of code. False when the block is over."""
        from llmchat.ui.widgets.code_lines import code_rows

        code = self._code
        assert code is not None
        end = next((n for n, line in enumerate(self._lines) if self._fence.match(line)), None)
        lines = self._lines[:end]
        partial = self._partial if end is None and not self._may_close() and self._partial else None
        settled = code.add(lines, partial)
        self._close(code_rows(settled, self.palette, self.width), blank=False)
        rows = code_rows(code.open, self.palette, self.width)
        if end is None:
            self._lines.clear()
            self._show(rows, blank=False)
            return True
        self._close(rows, blank=False)
        self._drop(end + 1)
        self._code, self._gap, self._number, self.open = None, True, None, []
        return False

    def _may_close(self) -> bool:
        """The line that is coming looks like the end of the block."""
        text = self._partial.strip()
        return bool(text) and self._fence.pattern.find(re.escape(text[0])) >= 0 and len(set(text)) == 1
