"""Shown while the terminal has no room for anything useful."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import Static

from llmchat.ui.layout import SMALLEST, too_small


class TooSmallScreen(ModalScreen[None]):
    """Goes away by itself; the reply, the load and the draft below it go on."""

    DEFAULT_CSS = """
    TooSmallScreen {
        align: center middle;
        background: $background;
    }
    TooSmallScreen Static {
        width: 100%;
        text-align: center;
    }
    """

    def compose(self) -> ComposeResult:
        yield Static(id="words", markup=False)

    def on_resize(self, event: Resize) -> None:
        width, height = event.size
        if not too_small(width, height):
            if self.is_active:
                self.dismiss(None)
            return
        need = f"llmchat needs {SMALLEST[0]} x {SMALLEST[1]}"
        self.query_one("#words", Static).update(f"{need}\nthis terminal has {width} x {height}\nCtrl+Q quits")
