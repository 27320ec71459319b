"""A chat as a Markdown file: the conversation, and on what and how fast it was answered."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from pathlib import Path

from llmchat.domain.chat import Chat, ReplyStats, Turn
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import DISK, gib
from llmchat.domain.plan import Plan, Precision
from llmchat.domain.words import place
from llmchat.errors import StorageError
from llmchat.session import compared
from llmchat.session.state import SessionState

__all__ = ["markdown", "write"]

ENDED = {
    "end": "",
    "length": "cut at the token limit",
    "stopped": "stopped by hand",
    "context": "the context was full",
    "failed": "broken off by an error",
}
"""Why a reply ended, where that needs saying."""


def markdown(chat: Chat, state: SessionState) -> str:
    """The whole chat. The table at the top is about the session that exports it; every reply has its own speed."""
    parts = [f"# {_line(chat.title) or 'Chat'}", _about(chat, state)]
    if chat.system:
        parts += ["## System prompt", _closed(_clean(chat.system))]
    for turn in chat.turns:
        parts += _turn(turn)
    return "\n\n".join(part for part in parts if part) + "\n"


def write(path: Path, text: str) -> Path:
    """Write ``text`` to a new file and return its path: ``path``, or with ``-2``, ``-3`` ... where one exists.

    Raises StorageError.
    """
    path = path.expanduser()
    path = path.with_name(_file_name(path.name))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _write_new(path, text)
    except OSError as error:
        raise StorageError(
            "The chat cannot be exported", f"{path}: {error.strerror or error}.", "Give another path."
        ) from error


def _write_new(path: Path, text: str) -> Path:
    for number in itertools.count(1):
        target = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        with contextlib.suppress(FileExistsError), target.open("x", encoding="utf-8") as file:
            file.write(text)
            break
    return target


def _file_name(name: str) -> str:
    """Without control characters, and no longer than file systems take (255 bytes, with room for a number)."""
    name = re.sub(r"[\x00-\x1f\x7f]+", " ", name).strip()
    stem, dot, ending = name.rpartition(".")
    stem, ending = (stem, dot + ending) if stem else (name, "")
    while len((stem + ending).encode()) > 240 and stem:
        stem = stem[:-1]
    return (stem + ending) or "chat.md"


def _about(chat: Chat, state: SessionState) -> str:
    rows = [("Date", _date(chat.created)), ("Model", _model(chat, state))]
    plan = state.plan
    if plan:
        rows += [
            ("Strategy", plan.strategy),
            ("Precision", _precision(plan)),
            ("Context", f"{plan.context:,} tokens"),
        ]
        measured = state.measured or {}
        for device, planned in plan.devices.items():
            if planned.engine:
                found = f", measured {gib(measured[device].engine)}" if device in measured else ""
                rows.append((f"Memory, {place(device)}", f"planned {gib(planned.engine)}{found}"))
        rows += [("Speed", _speed(plan, state.measured_speed)), ("First token", _first_token(state))]
    else:
        rows += [("Strategy", chat.strategy), ("Precision", chat.precision)]
    if state.hardware:
        rows += _hardware(state.hardware, disk=bool(plan and DISK in plan.placement.values()))
    table = [f"| {name} | {_cell(value)} |" for name, value in rows if value]
    return "\n".join(["| | |", "|---|---|", *table])


def _speed(plan: Plan, measured: float | None) -> str:
    """``predicted 3.1, measured 3.2 tokens/s; predicted 1.4 with the context full``."""
    found = f", measured {measured:.1f}" if measured is not None else ""
    full = compared.full_speed(plan)
    return f"predicted {plan.tokens_per_second:.1f}{found} tokens/s" + (
        f"; predicted {full:.1f} with the context full" if full else ""
    )


def _first_token(state: SessionState) -> str:
    return compared.first_token(state).removeprefix("first token ")


def _model(chat: Chat, state: SessionState) -> str:
    if not state.model:
        return chat.model
    name = state.model.name
    revision = state.model.revision or (state.facts.revision if state.facts else "")
    return f"{name}, revision {revision}" if revision else name


def _precision(plan: Plan) -> str:
    if plan.precision is Precision.PUBLISHED:
        return f"as published ({plan.dtype})"
    return f"{plan.precision}, {plan.quantized_share:.0%} of the parameters; computed in {plan.dtype}"


def _hardware(hardware: HardwareProfile, disk: bool) -> list[tuple[str, str]]:
    counts: dict[str, int] = {}
    for gpu in hardware.gpus:
        name = f"{gpu.name} ({gib(gpu.total, 0)})"
        counts[name] = counts.get(name, 0) + 1
    gpus = ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())
    limit = f" ({hardware.ram_limit})" if hardware.ram_limit else ""
    rows = [
        ("GPUs", gpus or "none"),
        ("RAM", f"{gib(hardware.ram_total)}{limit}"),
        ("CPU", f"{hardware.cpu}, {hardware.cores} cores" if hardware.cpu else f"{hardware.cores} cores"),
    ]
    if disk and hardware.disk_bandwidth:
        rows.append(("Disk", f"{hardware.disk_bandwidth / 1e9:.1f} GB/s"))
    return rows


def _turn(turn: Turn) -> list[str]:
    if turn.role == "user":
        return ["## You", _closed(_clean(turn.content))]
    who = ", ".join(filter(None, (_line(turn.model), turn.label))) or "Assistant"
    thinking = _closed(_clean(turn.thinking))
    return [
        f"## {who}",
        f"<details><summary>Thinking</summary>\n\n{thinking}\n\n</details>" if thinking.strip() else "",
        _closed(_clean(turn.content)),
        f"*{_stats(turn.stats)}*" if turn.stats else "",
    ]


def _stats(stats: ReplyStats) -> str:
    speed = stats.tokens_per_second
    parts = [
        f"{stats.tokens:,} tokens",
        f"{speed:.1f} tokens/s" if speed is not None else "",
        f"first token after {stats.time_to_first_token:.2f} s",
        f"prompt of {stats.prompt_tokens:,} tokens",
        ENDED[stats.reason],
    ]
    return " · ".join(part for part in parts if part)


def _closed(text: str) -> str:
    """With a code block that was left open closed, so that it does not swallow what follows."""
    fence = ""
    for line in text.splitlines():
        mark = re.match(r" {0,3}(`{3,}|~{3,})(.*)$", line)
        if not mark:
            continue
        if not fence:
            fence = "" if mark[1][0] == "`" and "`" in mark[2] else mark[1]
        elif mark[1].startswith(fence) and not mark[2].strip():
            fence = ""
    return f"{text.rstrip()}\n{fence}" if fence else text.strip("\n")


def _clean(text: str) -> str:
    """Without what a terminal would obey, and as UTF-8 can hold it."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", text).encode("utf-8", "replace").decode()


def _line(text: str) -> str:
    return " ".join(_clean(text).split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
