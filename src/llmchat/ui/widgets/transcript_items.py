"""What stands in a transcript: messages, the reply that streams, and lines between them. Each draws itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from llmchat.domain.chat import ReplyStats, StopReason, Turn
from llmchat.session.state import Notice, Reply
from llmchat.ui.widgets.growing_text import GrowingMarkdown, GrowingPlain, GrowingText
from llmchat.ui.widgets.safe_text import one_line, safe_text
from llmchat.ui.widgets.transcript_palette import Palette
from llmchat.ui.widgets.wrapping import Line, fit, strips, wrap
from llmchat.ui.words import speed

FOLDED, UNFOLDED = "▸", "▾"
DOT = " · "
HINT_GAP = 2

FOLD = "fold"
"""Key in the meta of the line that folds the thinking."""

REASONS: dict[StopReason, str] = {
    "end": "finished",
    "length": "token limit reached",
    "stopped": "stopped by you",
    "context": "context full",
    "failed": "failed, this part is kept",
}
ALARMING: frozenset[StopReason] = frozenset({"length", "context", "failed"})
"""Reasons for which the answer is not all there, though nobody wanted that."""


@dataclass(frozen=True)
class Look:
    """All that a drawing depends on besides the item itself."""

    palette: Palette
    width: int
    thinking: bool = False
    """Thinking is shown, not folded."""


class Item:
    """Lines of a transcript that belong together; the last one is blank."""

    bar: Literal["you", ""] = ""
    turn: Turn | None = None

    @property
    def key(self) -> object:
        """Equal for a reply and the message that comes of it."""
        return self

    def draw(self, look: Look) -> list[Strip]:
        raise NotImplementedError

    def guess(self, width: int) -> int:
        """Lines that it will take, without drawing it."""
        return 2


class TurnItem(Item):
    """A message that is complete."""

    def __init__(self, turn: Turn, drawn: GrowingText | None = None) -> None:
        self.turn: Turn = turn
        self.bar = "you" if turn.role == "user" else ""
        self._drawn = drawn
        """The body as it streamed, used again at the same width and colours."""

    @property
    def key(self) -> object:
        return self.turn.id

    def draw(self, look: Look) -> list[Strip]:
        turn, palette = self.turn, look.palette
        lines = [role_line(turn.role, turn.model, turn.label, look)]
        if turn.role != "assistant":
            body = wrap([Segment(safe_text(turn.content.rstrip()), palette.text)], look.width)
            return strips([*lines, *body, []])
        if turn.thinking.strip():
            lines += thinking_lines(turn.thinking, look, live=False)
        return [*strips(lines), *self._body(look), *strips([*_stats(turn.stats, look), []])]

    def _body(self, look: Look) -> list[Strip]:
        kept = self._drawn
        if kept and kept.palette is look.palette and kept.width == look.width and kept.source == self.turn.content:
            return kept.strips
        self._drawn = None
        from llmchat.ui.widgets.markdown_blocks import markdown

        return strips(markdown(safe_text(self.turn.content), look.palette, look.width))

    def guess(self, width: int) -> int:
        return 2 + (self.turn.stats is not None) + _guess(self.turn.content, width)


class ReplyItem(Item):
    """The reply that is streaming."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.model = self.label = self.busy = ""
        self._answer: GrowingText | None = None
        self._thinking: GrowingText | None = None

    @property
    def key(self) -> object:
        return self.reply.turn_id

    def draw(self, look: Look) -> list[Strip]:
        reply = self.reply
        drawn = strips([role_line("assistant", self.model, self.label, look)])
        if reply.thinking.strip():
            drawn += self._draw_thinking(look)
        if reply.answer:
            self._answer = _fed(self._answer, GrowingMarkdown(look.palette, look.width), reply.answer)
            drawn += self._answer.strips
        elif not reply.thinking:
            drawn += strips(
                wrap([Segment(self.busy or "Waiting for the first token", look.palette.muted)], look.width)
            )
        return [*drawn, Strip([])]

    def _draw_thinking(self, look: Look) -> list[Strip]:
        reply = self.reply
        if reply.answer and not look.thinking:
            return strips(thinking_lines(reply.thinking, look, live=False))
        fresh = GrowingPlain(look.palette, look.width, look.palette.thinking)
        self._thinking = _fed(self._thinking, fresh, reply.thinking.lstrip())
        head = thinking_head(reply.thinking, look, open=True, live=not reply.answer)
        return [*strips([head]), *self._thinking.strips, Strip([])]

    def finished(self, turn: Turn) -> TurnItem:
        """The message that came of it; what was drawn is used again."""
        return TurnItem(turn, self._answer)

    def guess(self, width: int) -> int:
        return 2 + _guess(self.reply.answer or self.reply.thinking, width)


def _guess(text: str, width: int) -> int:
    return 1 + text.count("\n") + len(text) // max(1, width)


def _fed(kept: GrowingText | None, fresh: GrowingText, source: str) -> GrowingText:
    """``kept``, taken further, where it fits the palette, the width and the text; else ``fresh``."""
    if kept and kept.palette is fresh.palette and kept.width == fresh.width and kept.feed(source):
        return kept
    fresh.feed(source)
    return fresh


class NoticeItem(Item):
    """A line that is not a message."""

    def __init__(self, notice: Notice) -> None:
        self.notice = notice

    def draw(self, look: Look) -> list[Strip]:
        palette = look.palette
        styles = {"info": palette.muted, "warning": palette.warning, "error": palette.error}
        mark = {"info": "·", "warning": "!", "error": "×"}[self.notice.severity]
        style = styles[self.notice.severity]
        lines = wrap([Segment(safe_text(self.notice.text), style)], look.width - 2)
        return strips(
            [*([Segment(f"{mark} " if n == 0 else "  ", style), *line] for n, line in enumerate(lines)), []]
        )


class BorderItem(Item):
    """From here on the model sees the conversation."""

    def draw(self, look: Look) -> list[Strip]:
        words = fit(" the model sees the conversation from here ", look.width)
        rule = "─" * max(0, (look.width - len(words)) // 2)
        return strips([[Segment(f"{rule}{words}{rule}", look.palette.border)], []])


class BusyItem(Item):
    """What is going on while no reply streams."""

    def __init__(self, text: str) -> None:
        self.text = text

    def draw(self, look: Look) -> list[Strip]:
        return strips([*wrap([Segment(safe_text(self.text), look.palette.muted)], look.width), []])


class EmptyItem(Item):
    """What to do in an empty chat."""

    def __init__(self, hints: Sequence[tuple[str, str]]) -> None:
        self.hints = hints

    def draw(self, look: Look) -> list[Strip]:
        palette = look.palette
        wide = max((len(keys) for keys, _ in self.hints), default=0)
        rows: list[Line] = [
            [Segment(keys.ljust(wide + HINT_GAP), palette.link), Segment(what, palette.muted)]
            for keys, what in self.hints
        ]
        title: list[Line] = [[], [Segment("Ask something.", palette.heading)], []]
        return strips([line for row in [*title, *rows] for line in wrap(row, look.width)])


def role_line(role: str, model: str, label: str, look: Look) -> Line:
    """Who speaks, and for a reply what answered."""
    palette = look.palette
    if role == "user":
        return [Segment("You", palette.you)]
    if role == "system":
        return [Segment("System prompt", palette.muted)]
    name = fit(one_line(model).rstrip("/").rsplit("/", 1)[-1] or "Model", look.width)
    rest = fit(DOT + one_line(label), look.width - len(name)) if label else ""
    return [Segment(name, palette.model), Segment(rest, palette.muted)]


def thinking_head(text: str, look: Look, *, open: bool, live: bool) -> Line:
    """The line that stands for the thinking; a click on it folds or unfolds."""
    words = f"{len(text.split()):,} words"
    name = "Thinking" if live else "Thought"
    hint = "" if live else f"{DOT}Ctrl+T {'hides' if open else 'shows'} it"
    style = look.palette.thinking + Style.from_meta({FOLD: True})
    return [Segment(fit(f"{UNFOLDED if open else FOLDED} {name}{DOT}{words}{hint}", look.width), style)]


def thinking_lines(text: str, look: Look, *, live: bool) -> list[Line]:
    """The thinking of a reply that answers by now: one line, and the text below it where it is wanted."""
    head = thinking_head(text, look, open=look.thinking, live=live)
    if not look.thinking:
        return [head]
    return [head, *wrap([Segment(safe_text(text.strip()), look.palette.thinking)], look.width), []]


def _stats(stats: ReplyStats | None, look: Look) -> list[Line]:
    """Tokens, tokens/s, time to first token, and why it stopped."""
    if stats is None:
        return []
    facts = [f"{stats.tokens:,} token{'s' if stats.tokens != 1 else ''}"]
    if stats.tokens_per_second is not None:
        facts.append(speed(stats.tokens_per_second))
    facts.append(f"first token {stats.time_to_first_token:.2f} s")
    style = look.palette.warning if stats.reason in ALARMING else look.palette.muted
    runs = [Segment(DOT.join(facts) + DOT, look.palette.muted), Segment(REASONS[stats.reason], style)]
    return wrap(runs, look.width)
