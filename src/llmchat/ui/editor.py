"""Writing a message in the person's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from llmchat.errors import UsageError


def command() -> list[str]:
    """$VISUAL, else $EDITOR, else vi (notepad on Windows)."""
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("notepad" if os.name == "nt" else "vi")
    return shlex.split(chosen)


def edit(text: str) -> str:
    """``text`` as the person leaves it in the editor, which has the terminal until it ends. Raises UsageError."""
    words = command()
    with tempfile.TemporaryDirectory(prefix="llmchat-") as folder:
        path = Path(folder) / "message.md"
        path.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*words, str(path)], check=False)
        except OSError as error:
            raise UsageError("No editor", f"{words[0]} cannot be started: {error}.", "Set $EDITOR.") from error
        if done.returncode != 0:
            raise UsageError(
                "Editor failed", f"{words[0]} ended with status {done.returncode}; the draft is as it was."
            )
        return path.read_text(encoding="utf-8").rstrip("\n")
