"""The lines of which every memory view is made: a bar, its numbers, its sensors. No widget, no clock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from textual.content import Content

from llmchat.domain.memory import CPU, DISK, GIB, Account, cuda
from llmchat.session.state import MemorySample
from llmchat.ui.bars import FILL, KINDS, NAMES, Kind, segments, spark, thin
from llmchat.ui.words import number, used_of

MUTED = "$muted"
"""Of quiet text: a variable of our themes."""
_MAKER = re.compile(r"^(NVIDIA|AMD|Intel)\s+|\b(GeForce|Graphics|Laptop GPU)\b\s*")


@dataclass(frozen=True)
class Device:
    """One GPU or the RAM as the views draw it."""

    key: str
    """``cuda:0``, ``cpu``."""
    name: str
    short: str
    """For a line with little room: ``G0``, ``RAM``."""
    what: str
    """The GPU's model, or what limits the RAM."""
    account: Account
    load: float | None
    temperature: float | None = None
    power: float | None = None
    past: tuple[float, ...] = ()
    """Used shares of the memory, oldest first."""


def devices(sample: MemorySample | None, history: Sequence[MemorySample] = ()) -> list[Device]:
    """The GPUs of ``sample``, then the RAM."""
    if sample is None:
        return []
    past: dict[str, list[float]] = {}
    for old in history:
        for gpu in old.gpus:
            past.setdefault(cuda(gpu.index), []).append(_filled(gpu.account))
        past.setdefault(CPU, []).append(_filled(old.ram))
    found = [
        Device(
            key=cuda(gpu.index),
            name=f"GPU {gpu.index}",
            short=f"G{gpu.index}",
            what=_MAKER.sub("", gpu.name).strip(),
            account=gpu.account,
            load=gpu.utilization,
            temperature=gpu.temperature,
            power=gpu.power,
            past=tuple(past.get(cuda(gpu.index), ())),
        )
        for gpu in sample.gpus
    ]
    ram = Device(
        key=CPU,
        name="RAM",
        short="RAM",
        what=sample.ram_limit,
        account=sample.ram,
        load=sample.cpu_utilization,
        past=tuple(past.get(CPU, ())),
    )
    return [*found, ram]


def _filled(account: Account) -> float:
    return account.used / account.total if account.total else 0.0


def colour(kind: Kind) -> str:
    return f"$mem-{kind.replace('_', '-')}"


def bar(account: Account, cells: int) -> Content:
    """A stacked bar ``cells`` wide; blank where the total is not known."""
    parts = [(FILL[kind] * count, colour(kind)) for kind, count in segments(account, cells)]
    return Content.assemble(*parts) if parts else Content(" " * max(0, cells))


def ends(left: Content | str, right: Content | str, width: int) -> Content:
    """``left`` and ``right`` at the two ends of a line; the left one is cut where both do not fit."""
    left = Content(left) if isinstance(left, str) else left
    right = Content(right) if isinstance(right, str) else right
    room = max(0, width - right.cell_length - 2)
    left = left.truncate(room, ellipsis=True) if left.cell_length > room else left
    return left + " " * max(0, width - left.cell_length - right.cell_length) + right


def title(device: Device, width: int) -> Content:
    """``GPU 0  H200                71.2/80.0 GiB``."""
    left = Content.assemble((device.name, "bold"), ("  " + device.what if device.what else "", MUTED))
    used = f"{used_of(device.account)} GiB" if device.account.total else "unknown"
    return ends(left, used, width)


def kinds(account: Account, width: int) -> Content:
    """What the engine holds, each kind in its colour; kinds that do not fit the width are left out."""
    line = Content("")
    for kind in KINDS:
        amount = getattr(account, kind)
        if not amount or kind == "free":
            continue
        name = "KV" if kind == "kv_cache" else NAMES[kind]
        part = Content.styled(f"{name} {number(amount)}", colour(kind))
        gap = 2 if line.cell_length else 0
        if line.cell_length + gap + part.cell_length > width:
            break
        line = line + " " * gap + part
    return line


def sensors(device: Device, width: int) -> Content:
    """Utilization, temperature and power at the left, the history at the right."""
    facts = (
        [("CPU " if device.key == CPU else "") + f"{device.load * 100:3.0f} %"] if device.load is not None else []
    )
    if device.temperature is not None:
        facts.append(f"{device.temperature:.0f} °C".replace("  ", " "))
    if device.power is not None:
        facts.append(f"{device.power:3.0f} W")
    text = "  ".join(facts)
    cells = max(0, min(16, width - len(text) - 2))
    past = spark(thin(device.past, cells), cells)
    return ends(Content.styled(text, MUTED), Content.styled(past, "$mem-weights"), width)


def legend(width: int) -> list[Content]:
    """What the characters mean, on as many lines as the width asks for."""
    lines = [Content("")]
    for kind in KINDS:
        part = Content.assemble((FILL[kind], colour(kind)), (f" {NAMES[kind]}", MUTED))
        if lines[-1].cell_length and lines[-1].cell_length + 2 + part.cell_length > width:
            lines.append(Content(""))
        lines[-1] = lines[-1] + ("  " if lines[-1].cell_length else "") + part
    return lines


def sums(accounts: Iterable[tuple[str, Account]]) -> Account:
    """All devices together, the disk aside."""
    held = [account for device, account in accounts if device != DISK]
    return Account(
        weights=sum(a.weights for a in held),
        kv_cache=sum(a.kv_cache for a in held),
        compute=sum(a.compute for a in held),
    )


def comparison(planned: Account, measured: Account | None, width: int, context: int, used: int) -> list[Content]:
    """Planned and measured GiB by kind, under their names; the KV cache is planned for the whole ``context`` of
    tokens and measured at those ``used``, and that is said."""
    column = 11
    digits = 1 if planned.engine >= 10 * GIB else 2
    head = "GiB".ljust(width - 2 * column) + "planned".rjust(column) + "measured".rjust(column)
    lines = [Content.styled(head, MUTED)]
    for kind in KINDS[:3]:
        amounts = [getattr(planned, kind), getattr(measured, kind) if measured else None]
        cells = ["–" if amount is None else f"{amount / GIB:.{digits}f}" for amount in amounts]
        name = Content.styled(NAMES[kind].ljust(width - 2 * column), colour(kind))
        lines.append(Content.assemble(name, (cells[0].rjust(column), "$muted"), (cells[1].rjust(column), "")))
    if measured and context:
        words = f"KV cache planned for {context:,} tokens; the chat has {used:,}"
        lines += Content.styled(words, MUTED).wrap(width)
    return lines
