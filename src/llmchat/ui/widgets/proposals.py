"""The switcher's table: which columns a width has room for, and what stands in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from textual.content import Content

from llmchat.domain.memory import CPU, DISK, GIB, Account, cuda_index
from llmchat.domain.plan import Kv, Plan, Precision, Proposal, Refusal
from llmchat.domain.speed.predict import PROMPT
from llmchat.session.compared import full_speed
from llmchat.ui.bars import BEST, DOT, LOADED
from llmchat.ui.widgets.memory_text import MUTED
from llmchat.ui.words import device_name, duration, number, rate

Name = Literal["mark", "strategy", "precision", "kv", "gpus", "ram", "disk", "speed", "full", "context", "verdict"]

KV: dict[Kv, str] = {"device": "", "8bit": "8 bit", "ram": "in RAM"}
VERDICT = 12
"""Least cells of the verdict."""

LEAST: dict[Name, int] = {"strategy": 14, "kv": 9, "gpus": 12, "ram": 6, "speed": 7, "full": 6}
"""Cells of columns that get narrower where there is little room."""

Row = tuple[Proposal, ...]
"""What stands in one row: a proposal, or refusals of one strategy for one reason."""


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


def rows(proposals: Sequence[Proposal]) -> list[Row]:
    """Plans and refusals that name what is missing, each in a row; below them, a strategy that cannot be had here
    at all in one row for its precisions."""
    absent: dict[tuple[str, str], list[Proposal]] = {}
    for proposal in proposals:
        if isinstance(proposal, Refusal) and not proposal.missing:
            absent.setdefault((proposal.strategy, proposal.reason), []).append(proposal)
    single: list[Row] = [(p,) for p in proposals if isinstance(p, Plan) or p.missing]
    return single + [tuple(group) for group in absent.values()]


def columns(proposals: Sequence[Proposal], width: int) -> list[Column]:
    """All columns where there is room; context, then disk, are left out where there is not, others get narrower,
    and at last RAM goes. What a full context slows down has a column only where there is such a plan."""
    gpus = max((len(per_gpu(p)) for p in proposals if isinstance(p, Plan)), default=0)
    found = [
        Column("mark", "", 2),
        Column("strategy", "Strategy", 17),
        Column("precision", "Weights", 11),
        Column("kv", "KV cache", 10),
        Column("gpus", "GiB on GPUs", max(13, min(20, gpus + 2)), right=True),
        Column("ram", "RAM", 7, right=True),
        Column("disk", "Disk", 7, right=True),
        Column("speed", "tok/s", 8, right=True),
        Column("full", "full", 7, right=True),
        Column("context", "Context", 10, right=True),
        Column("verdict", "  Verdict", 20),
    ]
    if not gpus:
        found = [column for column in found if column.name != "gpus"]
    if all(proposal.kv == "device" for proposal in proposals):
        found = [column for column in found if column.name != "kv"]
    if not any(isinstance(p, Plan) and full_speed(p) for p in proposals):
        found = [column for column in found if column.name != "full"]
    optional: list[Name] = ["context", "disk"]
    while sum(column.width for column in found) > width and optional:
        leave = optional.pop(0)
        found = [column for column in found if column.name != leave]
    over = sum(column.width for column in found[:-1]) + VERDICT - width
    for column in tuple(found[:-1]):
        less = min(over, column.width - LEAST.get(column.name, column.width))
        if less > 0:
            found[found.index(column)] = replace(column, width=column.width - less)
            over -= less
    if over > 0:
        found = [column for column in found if column.name != "ram"]
    spare = width - sum(column.width for column in found[:-1])
    return [*found[:-1], Column("verdict", " Verdict", max(VERDICT, min(30, spare)))]


def cells(row: Row, shape: Sequence[Column], comfortable: float, *, best: bool, loaded: bool) -> list[Content]:
    """One row; plans below ``comfortable`` tokens/s are called slow.

    Refusals are muted; the loaded plan and the recommended one carry a mark and a word.
    """
    proposal = row[0]
    if isinstance(proposal, Plan):
        texts = _plan_texts(proposal, comfortable)
    else:
        texts = _refusal_texts(proposal, precisions(row), next(c.width for c in shape if c.name == "verdict"))
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
        "kv": KV[plan.kv],
        "gpus": per_gpu(plan),
        "ram": _held(plan.devices.get(CPU)),
        "disk": _held(plan.devices.get(DISK)),
        "speed": rate(plan.tokens_per_second),
        "full": rate(full) if (full := full_speed(plan)) else "",
        "context": f"{plan.context:,}",
        "verdict": " fits" if plan.tokens_per_second >= comfortable else " fits, slow",
    }


def _refusal_texts(refusal: Refusal, weights: str, room: int) -> dict[Name, str]:
    """The verdict is what is missing, else the reason where ``room`` cells hold it."""
    reason = refusal.reason.rstrip(".")
    if refusal.missing:
        verdict = f"{number(refusal.missing)} GiB short"
    else:
        verdict = reason if len(reason) < room - 1 else "not here"
    return {"strategy": refusal.strategy, "precision": weights, "verdict": " " + verdict}


def precisions(row: Row) -> str:
    """``published``, ``8, 4 bit``, or ``any`` for all three."""
    names = [precision(proposal.precision) for proposal in row]
    if len(names) >= len(Precision):
        return "any"
    return ", ".join(names).replace(" bit, ", ", ")


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


def detail(row: Row, width: int, enough: Sequence[str] = (), measured: Sequence[str] = ()) -> Content:
    """Why, in words, for the row under the cursor. ``enough``: what would do better than this machine;
    ``measured``: what came of the plan, where it is the loaded one."""
    proposal = row[0]
    if isinstance(proposal, Plan):
        head = f"first token of a {PROMPT}-token prompt after {_first(proposal.time_to_first_token)}"
        title = Content.assemble((proposal.label, "bold $primary"), (f"  {head}", MUTED))
        lines = [title, *([Content(proposal.why_not)] if proposal.why_not else [])]
        if measured:
            lines += _items([f"measured: {each}" for each in measured], width)
        lines += _items(proposal.because, width)
        if enough and not proposal.why_not:
            lines += [Content.styled("What would do better:", MUTED), *_items(enough, width)]
        return Content("\n").join(lines)
    short = f"  {number(proposal.missing)} GiB short" if proposal.missing else ""
    on = f" on {device_name(proposal.device)}" if proposal.device and proposal.missing else ""
    title = Content.assemble((f"{proposal.strategy} {DOT} {precisions(row)}", "bold"), (short + on, "$error"))
    lines = [title, Content(proposal.reason)]
    if proposal.remedies:
        lines += [Content.styled("What would help:", MUTED), *_items((*proposal.remedies, *enough), width)]
    return Content("\n").join(lines)


def _first(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)


def _items(texts: Sequence[str], width: int) -> list[Content]:
    """Each behind a dot, its further lines under its first word."""
    lines = []
    for text in texts:
        for n, line in enumerate(Content(text).wrap(max(1, width - 2))):
            lines.append(Content.styled("  " if n else f"{DOT} ", MUTED) + line)
    return lines
