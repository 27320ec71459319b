"""Choose a model: the embedded default, the hub cache, local folders, or any hub id or folder path."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import DataTable, Input, Static

from llmchat.session.controller import Session
from llmchat.session.state import HubAccount, ModelRef, SessionState
from llmchat.ui import keys
from llmchat.ui.messages import CommandRun
from llmchat.ui.screens.base import StateView
from llmchat.ui.widgets.field import Field
from llmchat.ui.widgets.memory_text import MUTED
from llmchat.ui.widgets.status_bar import Hints, StatusBar
from llmchat.ui.words import machine, printable, size, where

HINTS: Hints = (("Enter", "open"), ("↑↓", "choose"), ("F5", "log in"), ("F1", "help"), ("^Q", "quit"))
BACK: Hints = (("Esc", "back"),)

SIZE_WIDTH = 11
WHERE_WIDTH = 10
"""Columns of the table, their gap included."""


class PickerScreen(StateView, Screen[ModelRef | str]):
    """The cursor's row is what Enter opens; text that names no row stands in a row of its own."""

    CSS_PATH = "picker.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.PICKER,
        Binding("escape", "back", "Back", id="picker.back"),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._shown: list[ModelRef | str] = []
        self._drawn: object = None

    def compose(self) -> ComposeResult:
        yield Static(id="heading")
        yield Field(placeholder="Filter, or type a hub id (org/name) or a folder", id="query")
        yield DataTable(id="models", cursor_type="row", cell_padding=0)
        yield Static(id="account")
        yield StatusBar()

    def on_mount(self) -> None:
        self.query_one(DataTable).can_focus = False
        self.query_one(Input).focus()

    def on_resize(self, event: Resize) -> None:
        self._drawn = None
        if self.ready:
            self.show(self.session.state)

    def show(self, state: SessionState) -> None:
        drawn = (state.models, state.account, state.hardware, state.model)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        about = machine(state.hardware)
        head = Content.assemble(("llmchat", "bold $primary"), ("  Choose a model\n", "bold"), (about, MUTED))
        self.query_one("#heading", Static).update(head)
        self.query_one(StatusBar).hints = (BACK if state.model else ()) + HINTS
        self.query_one("#account", Static).update(_account(state.account))
        self._fill(state)

    def _fill(self, state: SessionState) -> None:
        """Rebuild the table for what is typed, keeping the cursor's model."""
        table = self.query_one(DataTable)
        chosen = self._shown[table.cursor_row] if table.cursor_row < len(self._shown) else None
        text = self.query_one(Input).value.strip()
        found = [model for model in state.models if _matches(model, text)]
        self._shown = [*found]
        if text and text not in {model.id for model in found} and ("/" in text or not found):
            self._shown.append(text)
        state_width = 36 if self.size.width >= 110 else 13
        width = max(20, self.size.width - 4 - SIZE_WIDTH - WHERE_WIDTH - state_width)
        table.clear(columns=True)
        table.add_column("Model", width=width)
        table.add_column("Size".rjust(SIZE_WIDTH), width=SIZE_WIDTH)
        table.add_column("  Where", width=WHERE_WIDTH)
        table.add_column("  State", width=state_width)
        for item in self._shown:
            table.add_row(*_cells(item, width, state_width, opened=item == state.model))
        if chosen in self._shown:
            table.move_cursor(row=self._shown.index(chosen))

    @on(Input.Changed)
    def _filter(self) -> None:
        self._fill(self.session.state)
        self.query_one(DataTable).move_cursor(row=0)

    @on(Input.Submitted)
    @on(DataTable.RowSelected)
    def _open(self) -> None:
        row = self.query_one(DataTable).cursor_row
        if row < len(self._shown):
            self.dismiss(self._shown[row])

    @on(Field.Bound)
    async def _key_of_field(self, event: Field.Bound) -> None:
        await event.run()

    def action_move(self, by: int) -> None:
        table = self.query_one(DataTable)
        table.move_cursor(row=table.cursor_row + by)

    def action_login(self) -> None:
        self.post_message(CommandRun("login"))

    def action_back(self) -> None:
        """Empties the field, then goes back to the chat where a model is open."""
        query = self.query_one(Input)
        if query.value:
            query.value = ""
        elif self.session.state.model is not None:
            self.dismiss(None)


def _matches(model: ModelRef, text: str) -> bool:
    return all(word in f"{model.id} {model.title}".lower() for word in text.lower().split())


def _cells(item: ModelRef | str, width: int, state_width: int, *, opened: bool) -> list[Content]:
    """One row; a path that is too long loses its beginning, and a note shows where there is room."""
    if isinstance(item, str):
        place = "folder" if item.startswith((".", "/", "~")) else "hub"
        return [Content(f"Open {item}").truncate(width, ellipsis=True), Content(""), _muted(place), Content("")]
    name = printable(item.title if item.kind == "embedded" else item.id)
    name = name if len(name) < width else "…" + name[2 - width :]
    missing = "to convert" if item.kind == "embedded" else "to download"
    now = "open" if opened else "ready" if item.present else missing
    note = f"{now}; {item.note}" if item.note and state_width > 20 else now
    return [
        Content.styled(name, "bold" if opened else ""),
        Content(size(item.size).rjust(SIZE_WIDTH)),
        _muted(where(item)),
        _muted(note).truncate(state_width, ellipsis=True),
    ]


def _muted(text: str) -> Content:
    return Content.styled(f"  {text}", MUTED)


def _account(account: HubAccount) -> Content:
    if account.name is None:
        who = account.note or "nobody is logged in; gated and private models need it (F5)"
        return Content.assemble(("Hugging Face: ", MUTED), (who, MUTED))
    source = f"  token: {account.source}" if account.source else ""
    note = f"  {account.note}" if account.note else ""
    return Content.assemble(("Hugging Face: ", MUTED), (account.name, "bold"), (source, MUTED), (note, "$warning"))
