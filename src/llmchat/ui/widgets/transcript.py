"""The conversation: one widget that draws only the lines on screen."""

from __future__ import annotations

from time import monotonic
from typing import ClassVar

from textual import events
from textual.actions import SkipAction
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from llmchat.domain.chat import Turn
from llmchat.session.state import Notice, Reply
from llmchat.ui.widgets.safe_text import safe_text
from llmchat.ui.widgets.transcript_items import FOLD, Look
from llmchat.ui.widgets.transcript_keys import BINDINGS, EMPTY, ON_SELECTED
from llmchat.ui.widgets.transcript_layout import Layout
from llmchat.ui.widgets.transcript_lines import GUTTER, Dress, Dresser, extract
from llmchat.ui.widgets.transcript_palette import COMPONENTS, CSS, Palette
from llmchat.ui.widgets.transcript_shelf import Shelf

FRAME = 1 / 20
"""Seconds between two drawings of a streaming reply, at least."""
SHARE = 5
"""A drawing that took long is followed by a pause of as many times its duration."""
LONGEST_PAUSE = 0.5
WIDEST = 120
"""Cells of text: longer lines are hard to read."""


class Transcript(ScrollView, can_focus=True):
    """Attributes down, messages up. Lines are drawn when they come on screen, and kept."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(COMPONENTS)
    BINDINGS: ClassVar[list[BindingType]] = [*BINDINGS]
    DEFAULT_CSS = CSS

    turns: reactive[tuple[Turn, ...]] = reactive((), repaint=False)
    reply: reactive[Reply | None] = reactive(None, repaint=False)
    notices: reactive[tuple[Notice, ...]] = reactive((), repaint=False)
    seen_from: reactive[int] = reactive(0, repaint=False)
    busy_text: reactive[str] = reactive("", repaint=False)
    """What is going on, until the first token comes."""
    model: reactive[str] = reactive("", repaint=False)
    """Who answers now, and how: the head of the streaming reply. Where empty, as in the reply before."""
    label: reactive[str] = reactive("", repaint=False)
    hints: reactive[tuple[tuple[str, str], ...]] = reactive(EMPTY, repaint=False)
    """Keys and what they do, for an empty chat."""
    thinking: reactive[bool] = reactive(False, repaint=False)
    """Thinking of replies that answer by now is shown."""

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

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.lines = Layout()
        self._shelf = Shelf()
        self._dresser = Dresser()
        self._palette: Palette | None = None
        self._follow = True
        self._moving = False
        self._rearranged = False
        """The items stand as the attributes say."""
        self._scheduled = False
        self._next_frame = 0.0
        self._painted: tuple[int, list[Strip | None]] = (0, [])
        self._selected: str | None = None
        self._next_code = 0

    # --- attributes ------------------------------------------------------------------------------------------
    def watch_turns(self, before: tuple[Turn, ...], turns: tuple[Turn, ...]) -> None:
        """A new chat, or a message just sent: to the end."""
        if turns and (not before or before[0].id != turns[0].id or turns[-1].role == "user"):
            self._follow = True
        self._wake(rearrange=True)

    def watch_reply(self, before: Reply | None, reply: Reply | None) -> None:
        same = before is not None and reply is not None and before.turn_id == reply.turn_id
        self._wake(rearrange=not same)

    def watch_notices(self) -> None:
        self._wake(rearrange=True)

    def watch_seen_from(self) -> None:
        self._wake(rearrange=True)

    def watch_busy_text(self) -> None:
        self._wake(rearrange=True)

    def watch_model(self) -> None:
        self._wake(rearrange=True)

    def watch_label(self) -> None:
        self._wake(rearrange=True)

    def watch_hints(self) -> None:
        self._wake(rearrange=True)

    def watch_thinking(self) -> None:
        self._wake(rearrange=True)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette = None
        self._wake(rearrange=True)

    def on_resize(self, event: events.Resize) -> None:
        self._rearranged = False
        self._draw()

    # --- drawing ---------------------------------------------------------------------------------------------
    def _wake(self, *, rearrange: bool) -> None:
        """Draw soon, but not more often than a frame allows."""
        self._rearranged = self._rearranged and not rearrange
        if self._scheduled or not self.is_mounted:
            return
        self._scheduled = True
        wait = self._next_frame - monotonic()
        if wait <= 0:
            self.call_next(self._draw)
        else:
            self.set_timer(wait, self._draw)

    def _draw(self) -> None:
        self._scheduled = False
        if not self.size.width or not self.size.height:
            return
        started = monotonic()
        y = self.scroll_offset.y
        if not self._rearranged:
            y = self._rearrange(y)
        elif self.reply is not None and self._shelf.streams(self.reply):
            self._grow_reply(y)
        self._place(y)
        cost = monotonic() - started
        self._next_frame = started + max(FRAME, min(LONGEST_PAUSE, SHARE * cost))

    def _grow_reply(self, y: int) -> None:
        """The reply has more text: it grows downwards, so what is on screen from line ``y`` on stays."""
        index = self._shelf.reply_index
        if index is not None:
            self.lines.forget(index)
            if self.lines.top(index) < y + self.size.height:
                self.lines.strips(index)

    def _look(self) -> Look:
        if self._palette is None:
            palette = Palette.read(self.get_component_rich_style)
            kept = self.lines.look.palette if self.lines.look else None
            self._palette = kept if kept == palette else palette
        return Look(self._palette, max(4, min(WIDEST, self.size.width - GUTTER - 1)), self.thinking)

    def _rearrange(self, y: int) -> int:
        """Take the attributes over. Returns where the first line on screen stands now."""
        anchor = self.lines.find(y)
        item = self.lines.item(anchor) if anchor >= 0 else None
        row, height = (y - self.lines.top(anchor), self.lines.height(anchor)) if item else (0, 1)
        items = self._shelf.arrange(self)
        look = self._look()
        changed = look != self.lines.look
        self.lines.arrange(items, look)
        self._rearranged = True
        index = next((i for i, each in enumerate(items) if item and each.key == item.key), None)
        if index is not None:
            now = len(self.lines.strips(index))
            y = self.lines.top(index) + (row * now // height if changed else row)
        self._grow_reply(y)
        return y

    def _place(self, y: int) -> None:
        """Draw what is on screen from line ``y`` on, or at the end; then show it."""
        height = self.size.height
        y = self.lines.settle_end(height) if self._follow else self.lines.settle(y, height)
        self._move(y)
        shown = [self.lines.line(y + row)[1] for row in range(height)]
        before_y, before = self._painted
        self._painted = (y, shown)
        if before_y != y or len(before) != len(shown):
            self.refresh()
            return
        rows = [row for row in range(height) if before[row] is not shown[row] and before[row] != shown[row]]
        if rows:
            self.refresh_lines(y + rows[0], rows[-1] - rows[0] + 1)

    def _move(self, y: int) -> None:
        """Scroll to ``y`` without taking it for the person's wish."""
        self._moving = True
        size = Size(self.size.width, self.lines.total)
        if size != self.virtual_size:
            self.virtual_size = size
        self.scroll_target_y = self.scroll_y = y
        self._moving = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._moving:
            return
        self._follow = round(new_value) >= self.max_scroll_y
        if self._rearranged:
            self._place(round(new_value))

    def scroll_to(self, x: float | None = None, y: float | None = None, **options: object) -> None:
        """Never animated: heights become known on the way, which moves the target."""
        super().scroll_to(x, y, animate=False, force=bool(options.get("force")))

    def render_line(self, y: int) -> Strip:
        line = self.scroll_offset.y + y
        index, strip = self.lines.line(line)
        if strip is None or self._palette is None:
            return Strip.blank(self.size.width, self.rich_style)
        return self._dresser.dress(line, strip, self._dress(index, line), self.size.width)

    def _dress(self, index: int, line: int) -> Dress:
        item, palette = self.lines.item(index), self._palette
        assert palette is not None
        row = line - self.lines.top(index)
        turn = item.turn
        chosen = turn is not None and turn.id == self._selected
        bar = palette.selected if chosen else palette.you if item.bar else None
        selection = self.text_selection
        marked = selection.get_span(line) if selection else None
        return Dress(
            base=self.rich_style,
            bar=bar if row < self.lines.height(index) - 1 else None,
            hint=ON_SELECTED[turn.role] if turn and chosen and row == 0 else "",
            hint_style=palette.muted,
            marked=marked,
            mark_style=self.screen.get_component_rich_style("screen--selection") if marked else None,
        )

    # --- text selected by the mouse --------------------------------------------------------------------------
    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        last = self.lines.total - 1
        first = max(0, selection.start.y if selection.start else 0)
        last = min(last, selection.end.y if selection.end else last)
        if last < first:
            return None
        indices = range(self.lines.find(first), self.lines.find(last) + 1)
        texts = [strip.text for index in indices for strip in self.lines.strips(index)]
        return extract(texts, self.lines.top(indices[0]), selection), "\n"

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
