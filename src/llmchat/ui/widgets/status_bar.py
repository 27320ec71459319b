"""The last line: what the keys do, and what is going on now."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from llmchat.ui.widgets.memory_text import MUTED, ends

Hints = tuple[tuple[str, str], ...]
"""Key as it is written, and what it does in one word."""


class StatusBar(Widget):
    """Hints that do not fit are left out whole, from the right."""

    hints: reactive[Hints] = reactive(())
    now: reactive[str] = reactive("")

    def render(self) -> Content:
        width = self.content_size.width
        room = width - len(self.now) - (2 if self.now else 0)
        return ends(hint_line(self.hints, room), Content.styled(self.now, "$accent"), width)


def hint_line(hints: Hints, width: int) -> Content:
    """``F1 help  F4 strategy``, as many as fit."""
    line = Content("")
    for key, word in hints:
        part = Content.assemble((key, "bold $footer-key-foreground"), (f" {word}", MUTED))
        gap = 2 if line.cell_length else 0
        if line.cell_length + gap + part.cell_length > width:
            break
        line = line + " " * gap + part
    return line
