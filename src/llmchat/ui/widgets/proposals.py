"""The switcher's table: which columns a width has room for, and what stands in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from textual.content import Content

from llmchat.domain.memory import CPU, DISK, GIB, Account, cuda_index
from llmchat.domain.plan import Plan, Precision, Proposal, Refusal
from llmchat.ui.bars import BEST, DOT, LOADED
from llmchat.ui.widgets.memory_text import MUTED
from llmchat.ui.words import device_name, duration, number

Name = Literal["mark", "strategy", "precision", "gpus", "ram", "disk", "speed", "context", "verdict"]

VERDICT = 12
"""Least cells of the verdict."""


@dataclass(frozen=True)
class Column:
    name: Name
    label: str
    width: int
    """Its gap at the left included."""
    right: bool = False

    @property
    def heading(self) -> str:
        return self.place(self.label)

    def place(self, text: str) -> str:
        """``text`` in this column, cut where it is too long."""
        text = text if len(text) < self.width else text[: self.width - 2] + "…"
        return text.rjust(self.width) if self.right else (" " + text).ljust(self.width)


def columns(proposals: Sequence[Proposal], width: int) -> list[Column]:
    """All columns where there is room; disk, then context, are left out where there is not."""
    gpus = max((len(per_gpu(p)) for p in proposals if isinstance(p, Plan)), default=0)
    found = [
        Column("mark", "", 2),
        Column("strategy", "Strategy", 17),
        Column("precision", "Weights", 11),
        Column("gpus", "GiB on GPUs", max(13, min(20, gpus + 2)), right=True),
        Column("ram", "RAM", 7, right=True),
        Column("disk", "Disk", 7, right=True),
        Column("speed", "tok/s", 8, right=True),
        Column("context", "Context", 10, right=True),
        Column("verdict", "  Verdict", 20),
    ]
    if not gpus:
        found = [column for column in found if column.name != "gpus"]
    optional: list[Name] = ["context", "disk"]
    while sum(column.width for column in found) > width and optional:
        leave = optional.pop(0)
        found = [column for column in found if column.name != leave]
    over = sum(column.width for column in found[:-1]) + VERDICT - width
    found = [replace(c, width=max(13, c.width - over)) if c.name == "gpus" and over > 0 else c for c in found]
    spare = width - sum(column.width for column in found[:-1])
    return [*found[:-1], Column("verdict", " Verdict", max(VERDICT, min(30, spare)))]


def cells(
    proposal: Proposal, shape: Sequence[Column], comfortable: float, *, best: bool, loaded: bool
) -> list[Content]:
    """One row; plans below ``comfortable`` tokens/s are called slow.

    Refusals are muted; the loaded plan and the recommended one carry a mark and a word.
    """
    texts = _plan_texts(proposal, comfortable) if isinstance(proposal, Plan) else _refusal_texts(proposal)
    texts["mark"] = LOADED if loaded else BEST if best else ""
    if loaded or best:
        texts["verdict"] = " loaded" if loaded else " recommended"
    style = MUTED if isinstance(proposal, Refusal) else "bold" if best or loaded else ""
    return [Content.styled(column.place(texts.get(column.name, "")), _style(column, style)) for column in shape]


def _style(column: Column, style: str) -> str:
    return f"{style} $accent".strip() if column.name == "mark" else style


def _plan_texts(plan: Plan, comfortable: float) -> dict[Name, str]:
    return {
        "strategy": plan.strategy,
        "precision": precision(plan.precision),
        "gpus": per_gpu(plan),
        "ram": _held(plan.devices.get(CPU)),
        "disk": _held(plan.devices.get(DISK)),
        "speed": f"{plan.tokens_per_second:,.{1 if plan.tokens_per_second < 100 else 0}f}",
        "context": f"{plan.context:,}",
        "verdict": " fits" if plan.tokens_per_second >= comfortable else " fits, slow",
    }


def _refusal_texts(refusal: Refusal) -> dict[Name, str]:
    missing = f" {number(refusal.missing)} GiB short" if refusal.missing else " not here"
    return {"strategy": refusal.strategy, "precision": precision(refusal.precision), "verdict": missing}


def precision(value: Precision) -> str:
    return {Precision.PUBLISHED: "published", Precision.INT8: "8 bit", Precision.INT4: "4 bit"}[value]


def per_gpu(plan: Plan) -> str:
    """GiB on each GPU in order, equal neighbours counted: ``3×71+35``; two for small models: ``0.31``."""
    held = [(cuda_index(device), account.engine) for device, account in plan.devices.items()]
    amounts = [engine for index, engine in sorted((i, e) for i, e in held if i is not None) if engine]
    digits = 0 if max(amounts, default=0) >= 10 * GIB else 2
    groups = [
        (text, len(list(same))) for text, same in groupby(f"{amount / GIB:.{digits}f}" for amount in amounts)
    ]
    return "+".join(f"{count}×{text}" if count > 1 else text for text, count in groups)


def _held(account: Account | None) -> str:
    return number(account.engine) if account and account.engine else ""


def detail(proposal: Proposal) -> Content:
    """Why, in words, for the row under the cursor."""
    if isinstance(proposal, Plan):
        head = f"first token of a 512-token prompt after {_first(proposal.time_to_first_token)}"
        title = Content.assemble((proposal.label, "bold $primary"), (f"  {head}", MUTED))
        return Content("\n").join([title, *(_item(line) for line in proposal.because)])
    short = f"  {number(proposal.missing)} GiB short" if proposal.missing else ""
    on = f" on {device_name(proposal.device)}" if proposal.device and proposal.missing else ""
    title = Content.assemble(
        (f"{proposal.strategy} {DOT} {precision(proposal.precision)}", "bold"), (short + on, "$error")
    )
    lines = [title, Content(proposal.reason)]
    if proposal.remedies:
        lines += [Content.styled("What would help:", MUTED), *(_item(line) for line in proposal.remedies)]
    return Content("\n").join(lines)


def _first(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)


def _item(text: str) -> Content:
    return Content.assemble((f"{DOT} ", MUTED), text)
