"""The line above the composer: what is going on in words, and at its end what there is room for."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from llmchat.ui.widgets.memory_text import MUTED, ends


class Standing(Widget):
    """``aside`` is left out where both do not fit."""

    words: reactive[str] = reactive("")
    aside: reactive[str] = reactive("")

    def render(self) -> Content:
        width = self.content_size.width
        fits = len(self.words) + len(self.aside) + 3 <= width
        return ends(self.words, self.aside if fits else "", width).stylize(MUTED)
