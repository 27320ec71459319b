"""Option values: each parsed by one function that says what is wrong and what would be right."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

import msgspec

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.plan import Kv, Precision, Prefer
from llmchat.domain.strategies import ALL
from llmchat.errors import UsageError

UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


def size(text: str, option: str) -> int:
    """Bytes in ``10GiB``, ``10.5 GB`` or ``1073741824``. Raises UsageError."""
    match = _SIZE.fullmatch(text)
    unit = UNITS.get(match[2].lower()) if match else None
    if not match or unit is None:
        raise UsageError(
            "Not a size",
            f"{option}: {text!r} is not a number of bytes.",
            "Write it like 10GiB, 10.5GB, 512MiB or 1073741824.",
        )
    return int(float(match[1]) * unit)


def gpu_budgets(texts: Iterable[str]) -> dict[int, int]:
    """GPU index to bytes of ``0=10GiB`` and ``0=10GiB,1=8GiB``. Raises UsageError."""
    budgets: dict[int, int] = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        index, sign, amount = part.partition("=")
        if not sign or not index.strip().isdecimal():
            raise UsageError(
                "Not a GPU budget",
                f"--gpu-budget: {part!r} does not name a GPU and a size.",
                "Write it like 0=10GiB: the GPU's number, =, the most bytes to use there.",
            )
        if int(index) in budgets:
            raise UsageError("GPU named twice", f"--gpu-budget: GPU {int(index)} has two budgets.", "Keep one.")
        budgets[int(index)] = size(amount, "--gpu-budget")
    return budgets


def one_of(text: str, known: Sequence[str], option: str, what: str) -> str:
    """``text`` when it is among ``known``; else UsageError with the nearest one."""
    if text in known:
        return text
    near = difflib.get_close_matches(text.lower(), known, n=1, cutoff=0.5)
    raise UsageError(
        f"Unknown {what}",
        f"{option}: there is no {what} {text!r}.{f' Did you mean {near[0]}?' if near else ''}",
        f"Known: {', '.join(known)}.",
    )


def strategies() -> tuple[str, ...]:
    """The names that ``--strategy`` takes."""
    return tuple(known.name for known in ALL)


def strategy(text: str) -> str:
    return one_of(text, strategies(), "--strategy", "strategy")


def precision(text: str) -> Precision:
    return Precision(one_of(text, [str(p) for p in Precision], "--precision", "precision"))


def kv(text: str) -> str:
    return one_of(text, get_args(Kv), "--kv", "place for the KV cache")


def gpus(text: str) -> tuple[int, ...]:
    """GPU indices in ``1,0``. Raises UsageError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts) or len(set(parts)) < len(parts):
        raise UsageError(
            "Not a list of GPUs", f"--gpus: {text!r} does not name each GPU once.", "Write it like 0,1."
        )
    return tuple(int(part) for part in parts)


def prefer(text: str) -> str:
    return one_of(text, get_args(Prefer), "--prefer", "rule")


def whole(text: str, option: str, least: int = 1) -> int:
    """A whole number of at least ``least``. Raises UsageError."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise UsageError(
            "Not a number", f"{option}: {text!r} is not a whole number of {least} or more.", f"Like {option} 512."
        )
    return number


def fraction(text: str, option: str, least: float, most: float) -> float:
    """A number from ``least`` to ``most``. Raises UsageError."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise UsageError("Not a number", f"{option}: {text!r} is not a number from {least:g} to {most:g}.")
    return number


def hardware(path: Path, option: str) -> HardwareProfile:
    """The machine described in a JSON file. Raises UsageError that names the file and the field."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=HardwareProfile)
    except OSError as error:
        raise UsageError("Cannot read the machine", f"{option}: {path}: {error.strerror}.") from error
    except msgspec.DecodeError as error:
        raise UsageError(
            "Not a machine",
            f"{option}: {path} does not describe a machine: {error}.",
            '`llmchat doctor --json` prints this machine under the key "hardware"; start from that.',
        ) from error
