"""The memory panel: every GPU and the RAM in full, beside the chat."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from llmchat.domain.memory import Account
from llmchat.session.state import MemorySample
from llmchat.ui.widgets.memory_text import (
    MUTED,
    Device,
    bar,
    comparison,
    devices,
    ends,
    kinds,
    legend,
    sensors,
    sums,
    title,
)

BLOCK_LINES = (5, 4, 3, 2, 1)
"""Lines of one device, from all there is to say down to a single line."""


class MemoryPanel(Widget):
    """Drops detail rather than devices when the height is short."""

    sample: reactive[MemorySample | None] = reactive(None)
    history: reactive[tuple[MemorySample, ...]] = reactive(())
    planned: reactive[dict[str, Account] | None] = reactive(None)
    loaded: reactive[bool] = reactive(False)
    """What the engine holds now is what was planned, and can be compared with it."""
    tokens: reactive[tuple[int, int]] = reactive((0, 0))
    """Of the chat so far, and that the plan has room for."""
    room: reactive[str] = reactive("")
    """How many more tokens there is room for, in words."""

    def render(self) -> Content:
        width, height = self.content_size.width, self.content_size.height
        if self.sample is None:
            return Content.styled("Memory\n\nWaiting for the first numbers.", MUTED)
        found = devices(self.sample, self.history)
        foot = self._foot(width)
        head = [ends(Content.styled("Memory", "bold"), Content.styled("used / total, measured", MUTED), width)]
        spare = height - len(head) - len(legend(width)) - 2
        lines_each = next((n for n in BLOCK_LINES if len(found) * n + len(foot) <= spare), 0)
        if not lines_each:
            foot = []
            lines_each = next((n for n in BLOCK_LINES if len(found) * n <= spare), 1)
        body = [line for device in found for line in self._block(device, lines_each, width)]
        gap = [Content("")] if lines_each < 3 else []
        lines = [*head, Content(""), *body, *gap, *legend(width), *foot]
        return Content("\n").join(lines[:height])

    def _block(self, device: Device, lines: int, width: int) -> list[Content]:
        if lines == 1:
            used = title(device, width).plain.split()[-2:]
            name = f"{device.short:<4}"
            cells = width - len(name) - 12
            return [Content(name) + bar(device.account, cells) + used[0].rjust(12)]
        block = [title(device, width), bar(device.account, width)]
        if lines >= 5:
            block.append(kinds(device.account, width))
        if lines >= 4:
            block.append(sensors(device, width))
        if lines >= 3:
            block.append(Content(""))
        return block

    def _foot(self, width: int) -> list[Content]:
        """Planned beside measured, and how far the chat can go."""
        lines = []
        if self.planned:
            now = [(device.key, device.account) for device in devices(self.sample)]
            used, context = self.tokens
            measured = sums(now) if self.loaded else None
            lines += [Content(""), *comparison(sums(self.planned.items()), measured, width, context, used)]
        if self.room:
            lines += [Content(""), *Content.styled(self.room, MUTED).wrap(width)]
        return lines
