"""A plan as bars: what each device will hold, by kind."""

from __future__ import annotations

import msgspec
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import CPU, DISK, GIB, Account, cuda
from llmchat.domain.plan import Plan
from llmchat.ui.widgets.memory_text import MUTED, bar
from llmchat.ui.words import device_name


def planned_devices(plan: Plan, hardware: HardwareProfile | None) -> list[tuple[str, Account]]:
    """Devices on which the plan holds something, each account filled up to the device's total."""
    totals = {cuda(gpu.index): gpu.total for gpu in hardware.gpus} if hardware else {}
    if hardware:
        totals[CPU] = hardware.ram_total
    order = [*sorted(d for d in plan.devices if d not in (CPU, DISK)), CPU, DISK]
    found = []
    for device in order:
        account = plan.devices.get(device)
        if account and account.engine:
            free = max(0, totals.get(device, account.used) - account.used)
            found.append((device, msgspec.structs.replace(account, free=free)))
    return found


class PlanView(Widget):
    """One row per device that the plan uses."""

    plan: reactive[Plan | None] = reactive(None, layout=True)
    hardware: reactive[HardwareProfile | None] = reactive(None)

    def render(self) -> Content:
        if self.plan is None:
            return Content("")
        width = self.content_size.width
        return Content("\n").join(
            [self._row(device, account, width) for device, account in planned_devices(self.plan, self.hardware)]
        )

    def _row(self, device: str, account: Account, width: int) -> Content:
        left = f"{device_name(device):<7}"
        right = f"{account.engine / GIB:9.1f} GiB"
        if device == DISK:
            return Content(left) + Content.styled("weights read while answering".ljust(width - 20), MUTED) + right
        return Content(left) + bar(account, width - len(left) - len(right)) + right
