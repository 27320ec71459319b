"""Choose the colours; the chat behind the list shows each as the cursor comes to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual import on
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from llmchat.session.controller import Session
from llmchat.ui.screens.base import Dialog


class ThemeScreen(Dialog[str]):
    """Gives back the theme's name; closed with Esc, the colours are as they were."""

    CSS_PATH = "theme.tcss"
    HEADING = "Theme"
    HINTS = (("Enter", "keep"), ("↑↓", "look"), ("Esc", "as it was"))

    def __init__(self, session: Session, themes: Sequence[str], now: str) -> None:
        super().__init__(session)
        self._themes, self._before = themes, now

    def body(self) -> Iterable[Widget]:
        yield OptionList(*(Option(name, id=name) for name in self._themes), id="themes")

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.highlighted = self._themes.index(self._before) if self._before in self._themes else 0
        options.focus()

    @on(OptionList.OptionHighlighted)
    def _look(self, event: OptionList.OptionHighlighted) -> None:
        self.app.theme = event.option_id or self._before

    @on(OptionList.OptionSelected)
    def _keep(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_cancel(self) -> None:
        self.app.theme = self._before
        self.dismiss(None)
