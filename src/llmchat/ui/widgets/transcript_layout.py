"""Where the items of a transcript stand: lines by prefix sums, guessed until an item was drawn."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from textual.strip import Strip

from llmchat.ui.widgets.transcript_items import Item, Look

KEPT_LINES = 20_000
"""Drawn lines that are kept beyond those on screen; an item dropped keeps its height."""


@dataclass
class Place:
    """An item and what is known of its lines."""

    item: Item
    height: int
    """Guessed until ``strips`` were drawn."""
    strips: list[Strip] | None = None


class Layout:
    """Items one below the other. ``draws`` counts drawings, for tests."""

    def __init__(self) -> None:
        self.look: Look | None = None
        self.draws = 0
        self._places: list[Place] = []
        self._known: dict[int, Place] = {}
        """By identity of the item, which the place keeps alive."""
        self._tops: list[int] = [0]
        self._dirty = 0
        """Index of the first place whose top must be added up again."""
        self._recent: OrderedDict[int, Place] = OrderedDict()

    def __len__(self) -> int:
        return len(self._places)

    def item(self, index: int) -> Item:
        return self._places[index].item

    def arrange(self, items: Sequence[Item], look: Look) -> None:
        """Take these items; of those that were there before, what was drawn stays if ``look`` does."""
        same = look == self.look
        width = look.width
        known = self._known if same else {}
        self.look = look
        self._places = [known.get(id(item)) or Place(item, max(1, item.guess(width))) for item in items]
        self._known = {id(place.item): place for place in self._places}
        self._recent = OrderedDict((key, p) for key, p in self._recent.items() if self._known.get(key) is p)
        self._tops, self._dirty = [0] * (len(items) + 1), 0

    def forget(self, index: int) -> None:
        """The item has grown: it is drawn again when seen, and guessed until then."""
        place = self._places[index]
        place.strips = None
        guess = place.item.guess(self.look.width) if self.look else 0
        if guess > place.height:
            place.height = guess
            self._dirty = min(self._dirty, index)

    def top(self, index: int) -> int:
        """The first line of an item; of ``len(self)``, the number of lines in all."""
        if index > self._dirty:
            for i in range(self._dirty, len(self._places)):
                self._tops[i + 1] = self._tops[i] + self._places[i].height
            self._dirty = len(self._places)
        return self._tops[index]

    @property
    def total(self) -> int:
        return self.top(len(self._places))

    def height(self, index: int) -> int:
        return self._places[index].height

    def find(self, y: int) -> int:
        """Index of the item on line ``y``; the last one for a line beyond the end, -1 without items."""
        _ = self.total
        return min(bisect_right(self._tops, max(0, y)) - 1, len(self._places) - 1)

    def strips(self, index: int) -> list[Strip]:
        """The lines of an item, drawn now if need be."""
        place = self._places[index]
        if place.strips is None:
            assert self.look is not None
            place.strips = place.item.draw(self.look)
            self.draws += 1
            if len(place.strips) != place.height:
                place.height = len(place.strips)
                self._dirty = min(self._dirty, index)
        self._recent[id(place.item)] = place
        self._recent.move_to_end(id(place.item))
        return place.strips

    def drawn(self, index: int) -> bool:
        return self._places[index].strips is not None

    def line(self, y: int) -> tuple[int, Strip | None]:
        """The item on line ``y`` and that line; None where nothing stands or nothing is drawn."""
        index = self.find(y)
        strips = self._places[index].strips if index >= 0 else None
        row = y - self.top(index) if index >= 0 else 0
        return (index, strips[row]) if strips is not None and row < len(strips) else (index, None)

    def settle(self, y: int, height: int) -> int:
        """Draw what lines ``y`` to ``y + height`` show. Heights that turn out different move ``y`` along, so that
        what was on screen stays where it was; returns the new ``y``."""
        while True:
            y = max(0, min(y, self.total - height))
            index = self.find(y)
            moved = False
            while 0 <= index < len(self._places) and self.top(index) < y + height:
                before = self._places[index].height
                self.strips(index)
                grown = self._places[index].height - before
                if grown and self.top(index) < y:
                    y, moved = max(self.top(index), y + grown), True
                    break
                index += 1
            if not moved and y <= max(0, self.total - height):
                self._trim()
                return y

    def settle_end(self, height: int) -> int:
        """Draw the last ``height`` lines; returns where they begin."""
        index, seen = len(self._places), 0
        while index > 0 and seen < height:
            index -= 1
            seen += len(self.strips(index))
        return self.settle(max(0, self.total - height), height)

    def _trim(self) -> None:
        """Drop what was drawn and not seen for long."""
        lines = sum(len(place.strips or ()) for place in self._recent.values())
        while lines > KEPT_LINES and len(self._recent) > 8:
            _, place = self._recent.popitem(last=False)
            lines -= len(place.strips or ())
            place.strips = None
