"""One row per GPU and one for the RAM, above the composer."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from llmchat.session.state import MemorySample
from llmchat.ui.layout import row_lines
from llmchat.ui.widgets.memory_text import MUTED, Device, bar, devices
from llmchat.ui.words import used_of


class MemoryRows(Widget):
    """More than five devices stand in two columns."""

    sample: reactive[MemorySample | None] = reactive(None, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return row_lines(len(devices(self.sample))) or 1

    def render(self) -> Content:
        found = devices(self.sample)
        if not found:
            return Content.styled("Waiting for the first memory numbers.", MUTED)
        lines = row_lines(len(found))
        columns = -(-len(found) // lines)
        width = (self.content_size.width - 2 * (columns - 1)) // columns
        numbers = max(len(used_of(device.account)) for device in found)
        cells = [self._row(device, width, numbers, detail=columns == 1) for device in found]
        rows = [Content("  ").join(cells[line::lines]) for line in range(lines)]
        return Content("\n").join(rows)

    def _row(self, device: Device, width: int, numbers: int, *, detail: bool) -> Content:
        name = device.name if detail else device.short
        left = f"{name:<6}" if detail else f"{name:<4}"
        used = f"{used_of(device.account)} GiB" if device.account.total else "unknown"
        used = used.rjust(numbers + len(" GiB"))
        right = f" {used}{self._sensors(device)}" if detail else f" {used}"
        drawn = bar(device.account, width - len(left) - len(right))
        return Content(left) + drawn + Content.styled(right, MUTED)

    def _sensors(self, device: Device) -> str:
        load = f"{device.load * 100:5.0f} %" if device.load is not None else " " * 7
        temperature = f"{device.temperature:4.0f}°C" if device.temperature is not None else " " * 6
        return load + temperature
