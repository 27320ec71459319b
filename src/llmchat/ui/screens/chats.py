"""Saved chats: find, resume, delete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from llmchat.domain.chat import Chat
from llmchat.ui import keys
from llmchat.ui.screens.base import Dialog
from llmchat.ui.widgets.field import Field
from llmchat.ui.widgets.memory_text import MUTED, ends
from llmchat.ui.widgets.status_bar import Hints, StatusBar
from llmchat.ui.words import one_line

UNDO: Hints = (("^Z", "undo the deletion"),)
WIDTH = 100
"""Of the frame, where the terminal has as much."""


class ChatsScreen(Dialog[str]):
    """Gives back the id of the chat to resume."""

    CSS_PATH = "chats.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.CHATS,
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
    ]
    HEADING = "Chats"
    HINTS = (("Enter", "resume"), ("↑↓", "choose"), ("^D", "delete"), ("Esc", "close"))

    def body(self) -> Iterable[Widget]:
        yield Field(placeholder="Search titles and messages", id="query")
        yield OptionList(id="chats")

    def on_mount(self) -> None:
        self._doomed = ""
        self._deleted: list[str] = []
        self.query_one(OptionList).can_focus = False
        self.query_one(Input).focus()
        self._fill()

    def _fill(self) -> None:
        found: Sequence[Chat] = self.session.chats(self.query_one(Input).value.strip())
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options([Option(self._line(chat), id=chat.id) for chat in found])
        if not found:
            options.add_option(Option(Content.styled("No saved chat is like this.", MUTED), disabled=True))
        options.highlighted = 0 if found else None

    def _line(self, chat: Chat) -> Content:
        if chat.id == self._doomed:
            return Content.styled(f"Press Ctrl+D again to delete: {one_line(chat.title) or 'untitled'}", "$error")
        day = datetime.fromtimestamp(chat.updated).strftime("%Y-%m-%d %H:%M")
        width = min(WIDTH, self.app.size.width) - 6
        model = f"{chat.model.rstrip('/').rsplit('/', 1)[-1][:24]}  " if width > 80 else ""
        return ends(one_line(chat.title) or "untitled", Content.styled(model + day, MUTED), width)

    @on(Input.Changed)
    def _search(self) -> None:
        self._doomed = ""
        self._fill()

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _resume(self) -> None:
        if chosen := self._chosen():
            self.dismiss(chosen)

    def _chosen(self) -> str | None:
        option = self.query_one(OptionList).highlighted_option
        return option.id if option else None

    def action_move(self, by: int) -> None:
        options = self.query_one(OptionList)
        if by < 0:
            options.action_cursor_up()
        else:
            options.action_cursor_down()

    def action_delete(self) -> None:
        """The first press asks, the second deletes. Of priority, as the field has a use of its own for the key."""
        self.query_one(Field).in_turn("delete_now", self)

    def action_undo(self) -> None:
        """Bring back what was deleted last."""
        if self._deleted:
            self.session.restore_chat(self._deleted.pop())
            self._doomed = ""
            self.query_one(StatusBar).hints = UNDO + self.HINTS if self._deleted else self.HINTS
            self._fill()

    def action_delete_now(self) -> None:
        chosen, options = self._chosen(), self.query_one(OptionList)
        row = options.highlighted
        if chosen is None:
            return
        if self._doomed == chosen:
            self.session.delete_chat(chosen)
            self._deleted.append(chosen)
            self._doomed = ""
            self.query_one(StatusBar).hints = UNDO + self.HINTS
        else:
            self._doomed = chosen
        self._fill()
        if row is not None and options.option_count:
            options.highlighted = min(row, options.option_count - 1)
