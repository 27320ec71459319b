"""The conversation as it is drawn: only the lines on screen, each kept once it is drawn."""

from __future__ import annotations

from time import monotonic

from textual import events
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from llmchat.domain.chat import Turn
from llmchat.session.state import Notice, Reply
from llmchat.ui.widgets.transcript_items import Look
from llmchat.ui.widgets.transcript_keys import EMPTY, ON_SELECTED
from llmchat.ui.widgets.transcript_layout import Layout
from llmchat.ui.widgets.transcript_lines import GUTTER, Dress, Dresser, extract
from llmchat.ui.widgets.transcript_palette import Palette
from llmchat.ui.widgets.transcript_shelf import Shelf

FRAME = 1 / 20
"""Seconds between two drawings of a streaming reply, at least."""
SHARE = 5
"""A drawing that took long is followed by a pause of as many times its duration."""
LONGEST_PAUSE = 0.5
WIDEST = 120
"""Cells of text: longer lines are hard to read."""


class TranscriptView(ScrollView):
    """Follows its attributes and the person's scrolling; what the keys do is the Transcript's."""

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
        """Id of the marked message."""

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
