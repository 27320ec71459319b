"""The conversation: walking through it, and what can be done with its messages."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.actions import SkipAction
from textual.binding import BindingType
from textual.message import Message

from llmchat.domain.chat import Turn
from llmchat.ui.widgets.safe_text import safe_text
from llmchat.ui.widgets.transcript_items import FOLD
from llmchat.ui.widgets.transcript_keys import BINDINGS
from llmchat.ui.widgets.transcript_palette import COMPONENTS, CSS
from llmchat.ui.widgets.transcript_view import TranscriptView


class Transcript(TranscriptView, can_focus=True):
    """Attributes down, messages up."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(COMPONENTS)
    BINDINGS: ClassVar[list[BindingType]] = [*BINDINGS]
    DEFAULT_CSS = CSS

    _next_code = 0
    """Of the marked message's code blocks, the one to be copied next."""

    class CopyRequested(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class EditRequested(Message):
        def __init__(self, turn_id: str, text: str) -> None:
            super().__init__()
            self.turn_id, self.text = turn_id, text

    class RegenerateRequested(Message):
        """Answer the last message again."""

    class LinkClicked(Message):
        def __init__(self, url: str) -> None:
            super().__init__()
            self.url = url

    class Left(Message):
        """The person is done walking through the messages."""

    # --- walking ---------------------------------------------------------------------------------------------
    @property
    def selected(self) -> Turn | None:
        """The message that the keys act on."""
        return next((turn for turn in self.turns if turn.id == self._selected), None)

    def select(self, turn: Turn | None) -> None:
        """Mark a message and bring it on screen; None marks nothing."""
        self._selected = turn.id if turn else None
        self._next_code = 0
        self.refresh()
        index = self._shelf.index(turn) if turn and self._rearranged else None
        if index is None:
            return
        height, y = self.size.height, self.scroll_offset.y
        rows = len(self.lines.strips(index))
        top = self.lines.top(index)
        if top < y or rows > height:
            self.scroll_to(y=top)
        elif top + rows > y + height:
            self.scroll_to(y=top + rows - height)

    def action_walk(self, by: int) -> None:
        """To the message before or after; after the last one, out."""
        turns = self.turns
        now = next((i for i, turn in enumerate(turns) if turn.id == self._selected), len(turns))
        target = max(0, now + by)
        if target < len(turns):
            self.focus(scroll_visible=False)
            self.select(turns[target])
        elif self._selected is not None:
            self.select(None)
            self.post_message(self.Left())

    def action_leave(self) -> None:
        """Mark nothing; what Escape does besides is the screen's."""
        if self._selected is not None:
            self.select(None)
            self.post_message(self.Left())
        raise SkipAction()

    def on_blur(self) -> None:
        if self.app.app_focus:
            self.select(None)

    def on_click(self, event: events.Click) -> None:
        meta = event.style.meta
        if url := meta.get("url"):
            self.post_message(self.LinkClicked(str(url)))
        elif meta.get(FOLD):
            self.action_toggle_thinking()
        elif self.text_selection is None:
            index, _ = self.lines.line(self.scroll_offset.y + event.y)
            turn = self.lines.item(index).turn if index >= 0 else None
            self.select(turn if turn and turn.id != self._selected else None)

    # --- what can be done with a message -----------------------------------------------------------------------
    def action_toggle_thinking(self) -> None:
        """Show the thinking, or fold it to a line."""
        self.thinking = not self.thinking

    toggle_thinking = action_toggle_thinking

    def action_copy_message(self) -> None:
        """The selected message, else the last one."""
        turn = self.selected or (self.turns[-1] if self.turns else None)
        if turn:
            self.post_message(self.CopyRequested(safe_text(turn.content)))

    def action_copy_code(self) -> None:
        """One code block after the other, of the selected message, else of the last that has one."""
        from llmchat.ui.widgets.markdown_parse import code_blocks

        turns = [self.selected] if self.selected else reversed(self.turns)
        for turn in turns:
            blocks = code_blocks(safe_text(turn.content)) if turn else []
            if blocks:
                self.post_message(self.CopyRequested(blocks[self._next_code % len(blocks)]))
                self._next_code += 1
                return
        self.notify("There is no code block to copy.", timeout=3)

    def action_edit_message(self) -> None:
        """The selected message if it is the person's, else their last one."""
        turn = self.selected
        if turn is not None and turn.role != "user":
            self.notify("Only your own messages can be edited.", timeout=3)
            return
        turn = turn or next((each for each in reversed(self.turns) if each.role == "user"), None)
        if turn:
            self.post_message(self.EditRequested(turn.id, turn.content))

    def action_regenerate(self) -> None:
        self.post_message(self.RegenerateRequested())
