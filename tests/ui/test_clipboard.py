from __future__ import annotations

import stat
from pathlib import Path

import pytest

from llmchat.ui import clipboard


@pytest.fixture
def xclip(tmp_path: Path) -> Path:
    """A tool of that name which writes what it is given beside itself."""
    path = tmp_path / "xclip"
    path.write_text(f'#!/bin/sh\nexec /bin/cat > "{tmp_path}/taken"\n')
    path.chmod(0o755)
    return path


def test_a_tool_is_taken_only_where_its_display_is(xclip: Path) -> None:
    path = str(xclip.parent)
    assert clipboard.tool({"PATH": path}) is None
    assert clipboard.tool({"PATH": path, "DISPLAY": ":0"}) == [str(xclip), "-selection", "clipboard"]


def test_the_tool_gets_the_text(xclip: Path) -> None:
    assert clipboard.copy_with_tool("Größe", [str(xclip)])
    assert (xclip.parent / "taken").read_text() == "Größe"


def test_a_tool_that_fails_or_is_gone_is_no_copy() -> None:
    assert not clipboard.copy_with_tool("x", ["/bin/false"])
    assert not clipboard.copy_with_tool("x", ["/nowhere/xclip"])


def test_without_a_tool_the_text_is_in_a_private_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    words = clipboard.copied("secret", tmp_path)
    path = tmp_path / "clipboard.txt"
    assert str(path) in words
    assert path.read_text() == "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_folder_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "if the terminal allows" in clipboard.copied("x", tmp_path / "missing")
