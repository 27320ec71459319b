"""The first line: the model at the left, how it is held and how full its context is at the right."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from llmchat.ui.widgets.memory_text import MUTED, ends


class TitleBar(Widget):
    model: reactive[str] = reactive("")
    chat: reactive[str] = reactive("")
    label: reactive[str] = reactive("")
    """Strategy and precision in force."""
    used: reactive[int] = reactive(0)
    context: reactive[int] = reactive(0)
    """Tokens; 0 without a plan."""

    def render(self) -> Content:
        left = Content.assemble(("llmchat", "bold $primary"), (f"  {self.model}", "bold"))
        if self.chat:
            left = left + Content.styled(f"  {self.chat}", MUTED)
        right = Content.styled(self.label, "$accent")
        if self.context:
            right = right + Content.styled(f"  {self.used:,} / {self.context:,} tokens", MUTED)
        return ends(left, right, self.content_size.width)
