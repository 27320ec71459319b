"""One line of text from the person."""

from __future__ import annotations

from collections.abc import Iterable

from textual import on
from textual.widget import Widget
from textual.widgets import Input, Static

from llmchat.session.controller import Session
from llmchat.ui.screens.base import Dialog
from llmchat.ui.widgets.field import Field


class AskScreen(Dialog[str]):
    """Gives back the text, or None when closed with Esc."""

    CSS_PATH = "ask.tcss"
    HINTS = (("Enter", "take it"), ("Esc", "leave it"))

    def __init__(self, session: Session, heading: str, what: str, value: str = "") -> None:
        super().__init__(session)
        self.HEADING = heading
        self._what, self._value = what, value

    def body(self) -> Iterable[Widget]:
        yield Static(self._what, markup=False, id="what")
        yield Field(self._value, id="value")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)
