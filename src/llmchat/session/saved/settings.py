"""The person's settings: one TOML file, made to be edited by hand, read strictly, its comments kept."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from llmchat.domain.chat import Sampling
from llmchat.domain.plan import Prefer
from llmchat.errors import UsageError

__all__ = ["Settings", "load", "save", "settings_file"]

Panel = Literal["full", "compact", "hidden"]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of the file. A key that is missing there has the default given here."""

    theme: str = "dark"
    """One of ours (dark, light, high-contrast, forest) or of ``themes/*.toml`` beside the settings file."""
    panel: Panel = "full"
    """How the memory is shown."""
    system: str = ""
    """System prompt of new chats."""
    prefer: Prefer = "balanced"
    """What the best plan is: see ``domain/planner.py``."""
    comfortable: float = 8.0
    """Tokens/s at which reading is comfortable."""
    model_folders: tuple[str, ...] = ()
    """Folders whose sub-folders are models; ``~`` is the home folder."""
    ascii: bool = False
    """Draw with plain characters."""
    reduced_motion: bool = False
    sampling: Sampling = Sampling()
    keys: dict[str, str] = {}
    """Id of a binding to its keys, separated by commas: ``strategy = "f4,ctrl+s"``."""


RANGES: dict[str, tuple[float, float]] = {
    "comfortable": (0.1, 1e6),
    "sampling.temperature": (0, 10),
    "sampling.top_p": (1e-6, 1),
    "sampling.top_k": (0, 1e6),
    "sampling.repetition_penalty": (0.1, 10),
    "sampling.max_tokens": (1, 1e9),
    "sampling.seed": (0, 2**63 - 1),
}
"""Least and most of the numbers, by dotted key."""


def settings_file() -> Path:
    """Where the settings are."""
    from llmchat.session.paths import config_dir

    return config_dir() / "settings.toml"


def load(path: Path | None = None) -> Settings:
    """The settings of ``path``; without a file, the defaults. Raises UsageError naming file, line and key."""
    path = path or settings_file()
    return _checked(_read(path), path)


def save(changes: Mapping[str, Any], path: Path | None = None) -> None:
    """Write these keys, by the names of ``Settings``; everything else in the file stays as it is.

    None takes a key out of the file. The file is replaced as a whole or not at all. Raises UsageError for a value
    that cannot be, or when the file as it stands is broken; StorageError when it cannot be written.
    """
    from llmchat.session.saved.settings_text import edited, written

    path = path or settings_file()
    text = edited(_read(path), changes, path)
    _checked(text, path)
    written(path, text)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise UsageError(
            "Settings cannot be read",
            f"{path}: {reason}.",
            "Mend the file, or move it away to start from the defaults.",
        ) from error


def _checked(text: str, path: Path) -> Settings:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _wrong(path, f"{error}, so it is no TOML file") from error
    _check_names(data, Settings, (), text, path)
    try:
        settings = msgspec.convert(data, Settings)
    except msgspec.ValidationError as error:
        words, _, place = str(error).partition(" - at `$.")
        key = re.split(r"[`\[]", place)[0]
        raise _wrong(path, f"{key}: {words[0].lower()}{words[1:]}", text, key) from error
    for key, (least, most) in RANGES.items():
        value = _value(settings, key)
        if value is not None and not (least <= value <= most and math.isfinite(value)):
            raise _wrong(path, f"{key}: {value:g} is not between {least:g} and {most:g}", text, key)
    return settings


def _check_names(
    data: Mapping[str, Any], struct: type[msgspec.Struct], above: tuple[str, ...], text: str, path: Path
) -> None:
    names = struct.__struct_fields__
    for name, value in data.items():
        key = ".".join((*above, name))
        if name not in names:
            import difflib  # 5 ms that a sound file need not wait for

            near = difflib.get_close_matches(name, names, 1)
            hint = f"; {'.'.join((*above, near[0]))} is near" if near else f"; there are {', '.join(names)}"
            raise _wrong(path, f"{key}: there is no such key{hint}", text, key)
        if name == "sampling" and isinstance(value, dict):
            _check_names(value, Sampling, (*above, name), text, path)


def _value(settings: Settings, key: str) -> float | None:
    thing: Any = settings
    for name in key.split("."):
        thing = getattr(thing, name)
    return None if thing is None else float(thing)


def _wrong(path: Path, what: str, text: str = "", key: str = "") -> UsageError:
    line = _line(text, key)
    where = f"{path}, line {line}" if line else f"{path}"
    return UsageError(
        "Something is wrong in the settings",
        f"{where}: {what}.",
        "Mend the file, or move it away to start from the defaults.",
    )


def _line(text: str, key: str) -> int | None:
    """Line of a dotted key, counted from 1; of its table where that is inline; None where it is not found."""
    table, found = "", None
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[([^\[\]]+)\]", line)
        if header:
            table = header[1].strip() + "."
        name = re.match(r"\s*([\w.\"'-]+)\s*=", line)
        here = table.rstrip(".") if header else table + re.sub(r"[\"']", "", name[1]) if name else None
        if here == key:
            return number
        if here and key.startswith(here + "."):
            found = number
    return found
