"""What the screens share: they are drawn from the session's state, and say below which keys do what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.markup import escape
from textual.screen import ModalScreen
from textual.widget import Widget

from llmchat.session.controller import Session
from llmchat.session.state import SessionState
from llmchat.ui import keys
from llmchat.ui.widgets.field import Field
from llmchat.ui.widgets.status_bar import Hints, StatusBar

Result = TypeVar("Result")


class StateView:
    """A screen that the app redraws after every change of state."""

    session: Session
    ready = False
    """Its widgets stand: ``show`` may be called."""

    def on_mount(self) -> None:
        self.ready = True
        self.show(self.session.state)

    def show(self, state: SessionState) -> None:
        """Set the widgets' attributes from ``state``."""
        raise NotImplementedError


class Dialog(ModalScreen[Result]):
    """A framed screen over the one below; Esc closes it without a result."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.DIALOG]
    DEFAULT_CLASSES = "-dialog"

    HEADING: str = ""
    HINTS: Hints = (("Esc", "close"),)

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    def body(self) -> Iterable[Widget]:
        """The widgets inside the frame."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Vertical(classes="frame") as frame:
            frame.border_title = escape(self.HEADING)
            yield from self.body()
            yield self._hint_bar()

    def _hint_bar(self) -> StatusBar:
        bar = StatusBar(classes="hints")
        bar.hints = self.HINTS
        return bar

    @on(Field.Bound)
    async def _key_of_field(self, event: Field.Bound) -> None:
        await event.run()

    def action_cancel(self) -> None:
        self.dismiss(None)
