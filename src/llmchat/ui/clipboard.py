"""Copying: the system's tool, the terminal (OSC 52), and a file as the last resort."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

TOOLS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("wl-copy", (), "WAYLAND_DISPLAY"),
    ("xclip", ("-selection", "clipboard"), "DISPLAY"),
    ("xsel", ("--clipboard", "--input"), "DISPLAY"),
    ("pbcopy", (), ""),
    ("clip.exe", (), ""),
)
"""Program, arguments, and the environment variable without which it cannot work."""

TIMEOUT = 2.0
"""Seconds; xclip hangs where the display does not answer."""


def tool(environ: Mapping[str, str] = os.environ) -> list[str] | None:
    """The command line of the first clipboard tool that can work here."""
    for name, arguments, needs in TOOLS:
        if (not needs or environ.get(needs)) and (path := shutil.which(name, path=environ.get("PATH"))):
            return [path, *arguments]
    return None


def copy_with_tool(text: str, command: list[str] | None) -> bool:
    """Give ``text`` to the system's tool. False where there is none or it failed."""
    if command is None:
        return False
    try:
        done = subprocess.run(
            command,
            input=text.encode("utf-8"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def copy_to_file(text: str, folder: Path) -> Path | None:
    """Write ``text`` to ``clipboard.txt``, readable by its owner alone. None where that fails."""
    path = folder / "clipboard.txt"
    try:
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    except OSError:
        return None
    return path


def copied(text: str, folder: Path) -> str:
    """Copy by the system's tool, else to a file, and say in words where the text is now. OSC 52 is the app's to
    send: nothing tells whether the terminal took it."""
    if copy_with_tool(text, tool()):
        return "Copied."
    path = copy_to_file(text, folder)
    return (
        f"Copied by the terminal, if it allows that; also in {path}."
        if path
        else "Copied, if the terminal allows that."
    )
