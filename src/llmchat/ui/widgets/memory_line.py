"""All memory on one line, for a small terminal: ``G0 71/80 · G1 64/80 · RAM 212/503 · multi-gpu · 14.2 tok/s``."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from llmchat.domain.memory import GIB
from llmchat.session.state import MemorySample
from llmchat.ui.bars import DOT
from llmchat.ui.widgets.memory_text import Device, devices
from llmchat.ui.words import speed


class MemoryLine(Widget):
    """GPUs that do not fit one by one are added up."""

    sample: reactive[MemorySample | None] = reactive(None)
    label: reactive[str] = reactive("")
    """The strategy and precision in force."""
    rate: reactive[float | None] = reactive(None)

    def render(self) -> Content:
        found = devices(self.sample)
        tail = [part for part in (self.label, speed(self.rate) if self.rate else "") if part]
        gap = f" {DOT} "
        line = gap.join([_one(device) for device in found] + tail)
        if len(line) > self.content_size.width and len(found) > 2:
            line = gap.join([_together(found[:-1]), _one(found[-1]), *tail])
        return Content(line or "Waiting for the first memory numbers.")


def _one(device: Device) -> str:
    account = device.account
    if not account.total:
        return f"{device.short} unknown"
    return f"{device.short} {account.used / GIB:.0f}/{account.total / GIB:.0f}"


def _together(gpus: list[Device]) -> str:
    used = sum(gpu.account.used for gpu in gpus) / GIB
    total = sum(gpu.account.total for gpu in gpus) / GIB
    return f"{len(gpus)} GPUs {used:.0f}/{total:.0f}"
