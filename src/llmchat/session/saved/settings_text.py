"""The settings file as text: made from a commented template, changed key by key, replaced as a whole."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import tomlkit
from tomlkit.exceptions import TOMLKitError

from llmchat.errors import StorageError, UsageError

__all__ = ["TEMPLATE", "edited", "written"]

TEMPLATE = """\
# Settings of llmchat. A key that is missing, or stands behind a #, has the default shown.

# Colours: dark, light, high-contrast, forest, or the name of a file in themes/ beside this one.
# theme = "dark"

# The memory view: full, compact or hidden.
# panel = "full"

# System prompt of new chats.
# system = ""

# Which plan is best: balanced, quality (highest precision) or speed.
# prefer = "balanced"

# Tokens per second at which reading is comfortable; balanced looks for it.
# comfortable = 8.0

# Folders whose sub-folders are models, for the model list.
# model_folders = ["~/models"]

# Draw with plain characters; no moving parts.
# ascii = false
# reduced_motion = false

# How tokens are drawn. Temperature 0 always takes the likeliest; top_k 0 is off. What is left out is as the
# model's authors set it.
[sampling]
# temperature = 0.7
# top_p = 0.95
# top_k = 0
# repetition_penalty = 1.0
# Longest reply in tokens; without it, what the context leaves.
# max_tokens = 1024
# Without it, a new one each time.
# seed = 1

# Keys by the id of their binding (F1 lists them), several separated by commas.
[keys]
# strategy = "f4,ctrl+s"
"""


def edited(text: str, changes: Mapping[str, Any], path: Path) -> str:
    """``text`` (empty: the template) with ``changes``. Raises UsageError where ``text`` is no TOML."""
    text = text or TEMPLATE
    plain = {name: msgspec.to_builtins(value) for name, value in changes.items()}
    for name, value in plain.items():
        for key in value if isinstance(value, dict) and name != "keys" else (name,):
            text = _uncommented(text, key, value[key] if isinstance(value, dict) and name != "keys" else value)
    try:
        document = tomlkit.parse(text)
        for name, value in plain.items():
            _set(document, name, value)
        return tomlkit.dumps(document)
    except TOMLKitError as error:
        raise UsageError(
            "Settings cannot be changed", f"{path}: {error}.", "Mend the file, then change the settings again."
        ) from error


def written(path: Path, text: str) -> None:
    """Replace the file in one step; a link stays a link. Raises StorageError."""
    target = path.resolve()
    temporary = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".settings-", dir=target.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(target)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        raise StorageError(
            "Settings cannot be saved",
            f"{path}: {error.strerror or error}.",
            "The change holds until llmchat ends. Check the disk and the rights of that folder.",
        ) from error


def _uncommented(text: str, key: str, value: Any) -> str:
    """Give a key its place where a comment shows its default, unless it is set already or to be taken out."""
    if value is None or re.search(rf"^\s*{re.escape(key)}\s*=", text, re.M):
        return text
    return re.sub(rf"^# ?{re.escape(key)} = .*$", f'{key} = "?"', text, count=1, flags=re.M)


def _set(table: Any, name: str, value: Any) -> None:
    if value is None:
        table.pop(name, None)
    elif isinstance(value, dict):
        if name not in table:
            table[name] = tomlkit.table()
        for key in [key for key in table[name] if key not in value]:
            del table[name][key]
        for key, inner in value.items():
            _set(table[name], key, inner)
    elif name not in table or table[name] != value:
        table[name] = value
