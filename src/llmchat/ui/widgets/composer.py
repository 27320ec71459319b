"""Where the person writes."""

from __future__ import annotations

import re
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import TextArea

from llmchat.ui.widgets.composer_history import History
from llmchat.ui.widgets.composer_paste import Pastes, clean, is_long

COMMAND = re.compile(r"/([a-z][a-z-]*)(?:\s+(.*))?", re.DOTALL)
PROMPT = "Write a message · Enter sends, Ctrl+J starts a new line"


class Composer(TextArea):
    """Grows from one to eight lines. Enter sends; a paste never does."""

    DEFAULT_CSS = """
    Composer {
        height: auto;
        max-height: 10;
        border: round $border-blurred;
        background: $background;
        padding: 0 1;
        scrollbar-size-vertical: 1;

        &:focus {
            border: round $border;
        }
        & > .text-area--cursor-line {
            background: transparent;
        }
        & > .text-area--placeholder, & > .text-area--suggestion {
            color: $muted;
        }
        &:disabled {
            border: round $border-blurred;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send", id="composer.send", show=False),
        Binding("shift+enter,alt+enter,ctrl+j", "newline", "New line", id="composer.newline", show=False),
        Binding("ctrl+c,super+c", "interrupt", "Copy, clear", id="composer.interrupt", show=False),
        Binding("tab", "complete", "Complete the command", id="composer.complete", show=False),
    ]

    commands: reactive[tuple[str, ...]] = reactive(())
    """Names that Tab completes after a slash."""
    prompt: reactive[str] = reactive(PROMPT)
    """Shown while it is empty."""
    blocked: reactive[str] = reactive("")
    """Why nothing can be written now; empty when it can."""

    held: reactive[str] = reactive("")
    """Why no message can be sent now, though it can be written; empty when it can."""

    class Submitted(Message):
        """A message to be sent, pastes expanded."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class CommandGiven(Message):
        """A line that begins with a slash: ``/model some/id`` is ``model`` and ``some/id``."""

        def __init__(self, name: str, argument: str) -> None:
            super().__init__()
            self.name, self.argument = name, argument

    class Interrupted(Message):
        """Ctrl+C with nothing selected and nothing written."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes, placeholder=PROMPT, tab_behavior="focus")
        self._pastes = Pastes()
        self._history = History()
        self._had_focus = False

    # --- the text --------------------------------------------------------------------------------------------
    @property
    def draft(self) -> str:
        """What is written, pastes expanded."""
        return self._pastes.expand(self.text)

    @draft.setter
    def draft(self, text: str) -> None:
        self.text = text
        self.move_cursor(self.document.end)

    def remember(self, *texts: str) -> None:
        """Texts sent earlier, oldest first, for the arrow keys."""
        for text in texts:
            self._history.add(text)

    def watch_prompt(self, prompt: str) -> None:
        self.placeholder = self.blocked or prompt

    def watch_blocked(self, before: str, blocked: str) -> None:
        if blocked and not before:
            self._had_focus = self.has_focus
        self.placeholder = blocked or self.prompt
        self.disabled = bool(blocked)
        if before and not blocked and self._had_focus:
            self.focus()

    @on(TextArea.Changed)
    def _keep_cursor_in_sight(self) -> None:
        """A new line at the end has no room yet when the cursor goes there."""
        self.call_after_refresh(self.scroll_cursor_visible, animate=False)

    # --- keys ------------------------------------------------------------------------------------------------
    async def _on_key(self, event: events.Key) -> None:
        """Run our bindings here, in the order of typing: one of priority would overtake letters still queued, and
        an ordinary one would come after letters typed later."""
        if not event.is_printable:
            active = self.screen.active_bindings.get(event.key)
            if active and active.node is self and await self.app.run_action(active.binding.action, self):
                event.stop()
                event.prevent_default()

    def action_send(self) -> None:
        """Send the message or give the command; nothing for blank text, and no message while it is held."""
        text = self.draft.strip()
        command = COMMAND.fullmatch(text) if "\n" not in text else None
        if self.held and text and not command:
            self.notify(self.held, timeout=3, markup=False)
        if not text or (self.held and not command):
            return
        self._history.add(text)
        self.clear()
        self._pastes.clear()
        self.history.clear()
        if command:
            self.post_message(self.CommandGiven(command[1], (command[2] or "").strip()))
        else:
            self.post_message(self.Submitted(text[1:] if text.startswith("//") else text))

    def action_newline(self) -> None:
        self._replace_via_keyboard("\n", *self.selection)

    def action_interrupt(self) -> None:
        """Copy what is selected, else clear the draft, else leave it to the app."""
        if self.selected_text:
            self.action_copy()
        elif self.text:
            self.draft = ""
        else:
            self.post_message(self.Interrupted())

    def action_complete(self) -> None:
        """Complete the name of a command, else go to the next widget."""
        if self._ghost():
            self.insert(self._ghost())
        else:
            self.screen.focus_next()

    def update_suggestion(self) -> None:
        self.suggestion = self._ghost()

    def _ghost(self) -> str:
        """What is missing of the command that is being typed: of the first that begins so."""
        typed = self.text
        if not re.fullmatch(r"/[a-z-]+", typed) or self.cursor_location != self.document.end:
            return ""
        return next((name for name in self.commands if name.startswith(typed[1:])), "")[len(typed) - 1 :]

    def _recall(self, text: str) -> None:
        self.draft = self._pastes.fold(text) if is_long(text) else text

    def action_cursor_up(self, select: bool = False) -> None:
        if not select and self.navigator.is_first_wrapped_line(self.cursor_location):
            text = self._history.older(self.text)
            if text is not None:
                self._recall(text)
                self.move_cursor((0, len(self.document.get_line(0))))
                return
        super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if not select and self.navigator.is_last_wrapped_line(self.cursor_location):
            text = self._history.newer()
            if text is not None:
                self._recall(text)
                return
        super().action_cursor_down(select)

    def action_delete_left(self) -> None:
        """A placeholder goes as a whole."""
        row, column = self.cursor_location
        placeholder = "" if self.selected_text else self._pastes.ending(self.document.get_line(row)[:column])
        if placeholder:
            self._delete_via_keyboard((row, column - len(placeholder)), (row, column))
        else:
            super().action_delete_left()

    async def _on_paste(self, event: events.Paste) -> None:
        """Insert the text; a long one folded."""
        event.prevent_default()
        event.stop()
        text = clean(event.text)
        result = self._replace_via_keyboard(self._pastes.fold(text) if is_long(text) else text, *self.selection)
        if result:
            self.move_cursor(result.end_location)
            self.focus()
