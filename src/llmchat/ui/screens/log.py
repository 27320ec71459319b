"""The end of the engine's log."""

from __future__ import annotations

from collections.abc import Iterable

from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from llmchat.ui.screens.base import Dialog
from llmchat.ui.words import printable


class LogScreen(Dialog[None]):
    """The text stays as it was when it was opened: it can be read and selected."""

    CSS_PATH = "log.tcss"
    HEADING = "Engine log"
    HINTS = (("↑↓", "scroll"), ("Esc", "close"))

    def body(self) -> Iterable[Widget]:
        yield VerticalScroll(Static(markup=False, id="lines"), id="scroll")

    def on_mount(self) -> None:
        scroll = self.query_one("#scroll", VerticalScroll)
        scroll.focus()
        text = printable(self.session.log_tail())
        self.query_one("#lines", Static).update(text or "The engine has said nothing yet.")
        scroll.scroll_end(animate=False)
