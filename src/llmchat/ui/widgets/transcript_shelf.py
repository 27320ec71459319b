"""From the attributes of a transcript to its items; an unchanged turn keeps its item, and so what was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from llmchat.domain.chat import Turn
from llmchat.session.state import Notice, Reply
from llmchat.ui.widgets.transcript_items import (
    BorderItem,
    BusyItem,
    EmptyItem,
    Item,
    NoticeItem,
    ReplyItem,
    TurnItem,
)


class Shown(Protocol):
    """The attributes that make the items."""

    turns: tuple[Turn, ...]
    reply: Reply | None
    notices: tuple[Notice, ...]
    seen_from: int
    busy_text: str
    model: str
    label: str
    hints: tuple[tuple[str, str], ...]


class Shelf:
    def __init__(self) -> None:
        self._turns: dict[str, TurnItem] = {}
        self._notices: dict[Notice, NoticeItem] = {}
        self._border = BorderItem()
        self._busy: BusyItem | None = None
        self._empty: EmptyItem | None = None
        self._reply: ReplyItem | None = None
        self._indices: dict[str, int] = {}
        self.reply_index: int | None = None
        """Where the streaming reply stands."""

    def index(self, turn: Turn) -> int | None:
        """Where the item of a turn stands."""
        return self._indices.get(turn.id)

    def streams(self, reply: Reply) -> bool:
        """Take a later state of the reply that stands here. False when it is another one."""
        if self._reply is None or self._reply.reply.turn_id != reply.turn_id:
            return False
        self._reply.reply = reply
        return True

    def arrange(self, shown: Shown) -> list[Item]:
        """The items from first to last."""
        turns = shown.turns
        items: list[Item] = []
        notices = self._by_place(shown.notices, len(turns))
        kept, self._turns, self._indices = self._turns, {}, {}
        for number, turn in enumerate(turns):
            items += notices.get(number, ())
            if number == shown.seen_from > 0:
                items.append(self._border)
            self._turns[turn.id] = item = self._turn(kept.get(turn.id), turn)
            self._indices[turn.id] = len(items)
            items.append(item)
        items += notices.get(len(turns), ())
        self._set_reply(shown)
        self.reply_index = len(items) if self._reply else None
        items += [self._reply] if self._reply else self._busy_line(shown.busy_text)
        return items or [self._hint(shown.hints)]

    def _turn(self, kept: TurnItem | None, turn: Turn) -> TurnItem:
        if kept and kept.turn is turn:
            return kept
        reply = self._reply
        return reply.finished(turn) if reply and reply.reply.turn_id == turn.id else TurnItem(turn)

    def _by_place(self, notices: Sequence[Notice], turns: int) -> dict[int, list[Item]]:
        self._notices = {notice: self._notices.get(notice) or NoticeItem(notice) for notice in notices}
        places: dict[int, list[Item]] = {}
        for notice, item in self._notices.items():
            places.setdefault(max(0, min(notice.after, turns)), []).append(item)
        return places

    def _set_reply(self, shown: Shown) -> None:
        reply = shown.reply
        if reply is None or reply.turn_id in self._turns:
            self._reply = None
            return
        if not self.streams(reply):
            self._reply = ReplyItem(reply)
        assert self._reply is not None
        before = next((turn for turn in reversed(shown.turns) if turn.role == "assistant"), None)
        self._reply.model = shown.model or (before.model if before else "")
        self._reply.label = shown.label or (before.label if before and not shown.model else "")
        self._reply.busy = shown.busy_text

    def _busy_line(self, text: str) -> list[Item]:
        if self._busy is None or self._busy.text != text:
            self._busy = BusyItem(text) if text else None
        return [self._busy] if self._busy else []

    def _hint(self, hints: tuple[tuple[str, str], ...]) -> EmptyItem:
        if self._empty is None or self._empty.hints != hints:
            self._empty = EmptyItem(hints)
        return self._empty
