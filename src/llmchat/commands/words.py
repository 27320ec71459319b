"""Sentences and tables for plain text output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from llmchat.domain.chat import StopReason, Turn
from llmchat.domain.memory import DISK, Account, gib
from llmchat.domain.plan import Plan
from llmchat.domain.words import place
from llmchat.session import compared
from llmchat.session.state import SessionState, Step

REASONS: dict[StopReason, str] = {
    "end": "the model ended it",
    "length": "the token limit was reached",
    "stopped": "you stopped it",
    "context": "the context is full",
    "failed": "it failed",
}


def pretty(value: object) -> str:
    """Indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def number(value: float) -> str:
    """One decimal; below 1 two significant digits: ``12.3``, ``0.019``."""
    return f"{value:.1f}" if value >= 1 or value == 0 else f"{value:.2g}"


def step(now: Step) -> str:
    """``Reading weights 3.1 of 15.0 GiB``."""
    if not now.total:
        return now.stage
    if now.unit == "bytes":
        return f"{now.stage} {gib(now.done)} of {gib(now.total)}"
    return f"{now.stage} {now.done} of {now.total} {now.unit}".rstrip()


def held(devices: Mapping[str, Account]) -> dict[str, dict[str, int]]:
    """Bytes of the engine on each device, by kind."""
    return {
        device: {"weights": a.weights, "kv_cache": a.kv_cache, "compute": a.compute, "total": a.engine}
        for device, a in devices.items()
    }


def statistics(state: SessionState, turn: Turn) -> str:
    """What a reply took, the plan behind it, and planned against measured memory: a few lines."""
    lines = [f"note: {notice.text}" for notice in state.notices]
    stats = turn.stats
    if stats:
        speed = stats.tokens_per_second
        parts = [
            f"{stats.tokens} tokens" + (f" at {number(speed)} tok/s" if speed else ""),
            f"first after {stats.time_to_first_token:.2f} s",
            f"{stats.prompt_tokens} in the prompt",
            REASONS[stats.reason],
        ]
        lines.append(f"reply: {', '.join(parts)}")
    plan = state.plan
    if plan:
        lines.append(f"plan: {plan.label}, context {plan.context}, {_predicted(plan, state.measured_speed)}")
        first = compared.first_token(state)
        lines += [first.replace("first token", "first token:", 1)] if first else []
        lines.append(f"memory: {_memory(plan.devices, state.measured or {})}")
    return "\n".join(lines)


def _predicted(plan: Plan, measured: float | None) -> str:
    """``predicted 12.3 tok/s (1.1 with the context full), measured 11.9``."""
    full = compared.full_speed(plan)
    return (
        f"predicted {number(plan.tokens_per_second)} tok/s"
        + (f" ({number(full)} with the context full)" if full else "")
        + (f", measured {number(measured)}" if measured else "")
    )


def _memory(planned: Mapping[str, Account], measured: Mapping[str, Account]) -> str:
    devices = sorted({*planned, *measured}, key=lambda name: (name == DISK, name == "cpu", name))
    return "; ".join(
        f"{place(name)} planned {gib(planned[name].engine) if name in planned else 'nothing'}"
        + (f", measured {gib(measured[name].engine)}" if name in measured else "")
        for name in devices
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: int = 2) -> str:
    """Aligned columns: the first ``left`` and the last to the left, the others to the right."""
    cells = [tuple(heads), *(tuple(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    last = len(heads) - 1

    def line(row: Sequence[str]) -> str:
        parts = [
            cell.ljust(width) if i < left or i == last else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    return "\n".join(line(row) for row in cells)
