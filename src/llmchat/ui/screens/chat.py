"""The chat: transcript, composer, and the memory beside, between or below them."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.message import Message
from textual.screen import Screen

from llmchat.session.controller import Session
from llmchat.session.state import Phase, SessionState
from llmchat.ui import keys
from llmchat.ui.commands import COMMANDS
from llmchat.ui.layout import Mode, next_mode
from llmchat.ui.messages import CommandRun
from llmchat.ui.screens.base import StateView
from llmchat.ui.screens.chat_memory import show_memory
from llmchat.ui.widgets.composer import Composer
from llmchat.ui.widgets.memory_line import MemoryLine
from llmchat.ui.widgets.memory_panel import MemoryPanel
from llmchat.ui.widgets.memory_rows import MemoryRows
from llmchat.ui.widgets.standing import Standing
from llmchat.ui.widgets.status_bar import Hints, StatusBar
from llmchat.ui.widgets.title_bar import TitleBar
from llmchat.ui.widgets.transcript import Transcript
from llmchat.ui.words import activity, one_line, printable, used

HINTS: Hints = (
    ("F1", "help"),
    ("F3", "model"),
    ("F4", "strategy"),
    ("^B", "memory"),
    ("^N", "new"),
    ("^R", "chats"),
    ("^P", "commands"),
    ("^Q", "quit"),
    ("F2", "settings"),
    ("^E", "export"),
)
STOP: Hints = (("Esc", "stop"),)
LOADING = "The model is being loaded: send it in a moment."
HELD = {
    Phase.GENERATING: "The reply before is not finished: Esc stops it.",
    Phase.PREPARING: LOADING,
    Phase.LOADING: LOADING,
    Phase.SWITCHING: LOADING,
}
"""Why a message that is written cannot be sent yet."""


class ChatScreen(StateView, Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [*keys.CHAT]

    class PanelChanged(Message):
        """The person chose another form of the memory view: to be kept in the settings."""

        def __init__(self, mode: Mode) -> None:
            super().__init__()
            self.mode = mode

    def __init__(self, session: Session, panel: Mode = "full") -> None:
        super().__init__()
        self.session, self._mode = session, panel
        self._chat_id = ""
        self._edited: str | None = None
        """Id of the message that the composer holds for editing."""

    def compose(self) -> ComposeResult:
        yield TitleBar()
        with Horizontal(id="middle"):
            with Vertical(id="conversation"):
                yield Transcript()
                yield Standing()
                yield MemoryRows()
                yield Composer()
            yield MemoryPanel()
        yield MemoryLine()
        yield StatusBar()

    def on_mount(self) -> None:
        composer = self.query_one(Composer)
        composer.commands = tuple(command.name for command in COMMANDS)
        composer.cursor_blink = False
        composer.focus()

    def on_resize(self, event: Resize) -> None:
        if self.ready:
            self.show(self.session.state)

    def show(self, state: SessionState) -> None:
        self._show_chat(state)
        self._show_bars(state)
        show_memory(self, state, self._mode)
        composer = self.query_one(Composer)
        composer.held = HELD.get(state.phase, "")
        if state.draft:
            composer.draft = self.session.take_draft()

    def _show_chat(self, state: SessionState) -> None:
        transcript = self.query_one(Transcript)
        transcript.turns = state.chat.turns if state.chat else ()
        transcript.reply = state.reply
        transcript.notices = state.notices
        transcript.seen_from = state.seen_from
        transcript.busy_text = activity(state) if state.reply and not state.reply.tokens else ""
        transcript.model = state.model.title if state.model else ""
        transcript.label = state.plan.label if state.plan else ""
        if state.chat and state.chat.id != self._chat_id:
            self._chat_id = state.chat.id
            sent = (turn.content for turn in state.chat.turns if turn.role == "user")
            self.query_one(Composer).remember(*sent)

    def _show_bars(self, state: SessionState) -> None:
        title, status = self.query_one(TitleBar), self.query_one(StatusBar)
        title.model = printable(state.model.title) if state.model else ""
        title.chat = one_line(state.chat.title) if state.chat else ""
        title.label = state.plan.label if state.plan else ""
        title.used, title.context = used(state), state.plan.context if state.plan else 0
        status.hints = STOP + HINTS if state.busy else HINTS
        status.now = activity(state)

    # --- what the person does --------------------------------------------------------------------------------
    @on(Composer.Submitted)
    def _send(self, event: Composer.Submitted) -> None:
        edited, self._edited = self._edited, None
        self._mark_edit()
        if edited is not None:
            self.session.edit(edited, event.text)
        else:
            self.session.send(event.text)

    @on(Transcript.EditRequested)
    def _edit(self, event: Transcript.EditRequested) -> None:
        """The message comes into the composer; sending it replaces what followed."""
        self.draft = event.text
        self._edited = event.turn_id
        self._mark_edit()

    def _mark_edit(self) -> None:
        words = "editing: what followed will be replaced; Esc leaves it" if self._edited else ""
        self.query_one(Composer).border_subtitle = words

    @on(Transcript.RegenerateRequested)
    def again(self) -> None:
        """Answer the last message again, once nothing is in the way."""
        if held := self.query_one(Composer).held:
            self.notify(held, timeout=3, markup=False)
        else:
            self.session.regenerate()

    @on(Transcript.CopyRequested)
    def _copy(self, event: Transcript.CopyRequested) -> None:
        self.app.copy_to_clipboard(event.text)

    @on(Transcript.LinkClicked)
    def _link(self, event: Transcript.LinkClicked) -> None:
        """Only links of the web are followed: a model wrote them."""
        if event.url.startswith(("https://", "http://")):
            self.app.open_url(event.url)
        else:
            self.notify(printable(event.url), title="Not opened", markup=False)

    @on(Transcript.Left)
    def _write(self) -> None:
        self.query_one(Composer).focus()

    @property
    def mode(self) -> Mode:
        """How much of the memory is shown."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._mode = mode
        self.show(self.session.state)

    @property
    def draft(self) -> str:
        return self.query_one(Composer).draft

    @draft.setter
    def draft(self, text: str) -> None:
        composer = self.query_one(Composer)
        composer.draft = text
        composer.focus()

    def action_stop(self) -> None:
        """Esc stops what runs; with nothing running it leaves an edit, and brings the cursor to the composer."""
        if self.session.stop():
            return
        if self._edited is not None:
            self._edited = None
            self.draft = ""
            self._mark_edit()
        self.query_one(Composer).focus()

    def action_memory(self) -> None:
        self.mode = next_mode(self._mode)
        self.post_message(self.PanelChanged(self._mode))

    def action_thinking(self) -> None:
        self.query_one(Transcript).action_toggle_thinking()

    def action_walk(self, by: int) -> None:
        self.query_one(Transcript).action_walk(by)

    def action_editor(self) -> None:
        self.post_message(CommandRun("editor"))
