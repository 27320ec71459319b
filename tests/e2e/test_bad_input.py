"""On a terminal, what cannot be done is a dialog or a notice that says what to do, and quitting works."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .terminal import Terminal


def chat(home: Path, *arguments: str, columns: int = 90, rows: int = 26) -> Terminal:
    environment = {"LLMCHAT_HOME": str(home / "llmchat"), "HF_HOME": str(home / "hf"), "HF_HUB_OFFLINE": "1"}
    argv = [sys.executable, "-m", "llmchat.cli", *arguments]
    return Terminal(argv, columns=columns, rows=rows, env=environment)


def leave(terminal: Terminal) -> None:
    terminal.press("ctrl+q")
    assert terminal.wait_exit() == 0
    assert "Traceback" not in terminal.text


@pytest.mark.parametrize(
    ("arguments", "title", "remedy"),
    [
        (("nobody/nothing",), "The hub is switched off", "Unset HF_HUB_OFFLINE"),
        (("./missing",), "Folder not found", "Give the folder that holds config.json"),
        (("{empty}",), "No model in this folder", "has no config.json"),
        (("smollm2", "--context", "100000", "--fake-engine"), "Context too long", "Ask for"),
        (
            ("smollm2", "--strategy", "cpu", "--ram-budget", "1MiB", "--fake-engine"),
            "does not fit",
            "Raise the budget",
        ),
    ],
)
def test_a_dialog_says_what_is_wrong_and_what_to_do(
    arguments: tuple[str, ...], title: str, remedy: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    with chat(tmp_path, *(text.format(empty=tmp_path / "empty") for text in arguments)) as terminal:
        terminal.wait(title)
        terminal.wait(remedy)
        leave(terminal)


def test_a_broken_theme_is_told_and_another_one_is_used(tmp_path: Path) -> None:
    themes = tmp_path / "llmchat" / "config" / "themes"
    themes.mkdir(parents=True)
    (themes / "broken.toml").write_text("name = ")
    with chat(tmp_path, "--fake-engine") as terminal:
        terminal.wait("Theme not loaded")
        terminal.wait("broken.toml")
        leave(terminal)


@pytest.mark.parametrize("model", [(), ("smollm2",)])
def test_a_terminal_that_is_too_small_says_how_large_it_must_be(model: tuple[str, ...], tmp_path: Path) -> None:
    with chat(tmp_path, *model, "--fake-engine", columns=30, rows=8) as terminal:
        terminal.wait("llmchat needs 60 x 15")
        leave(terminal)


def test_a_terminal_that_grows_shows_the_list_of_models(tmp_path: Path) -> None:
    with chat(tmp_path, "--fake-engine", columns=30, rows=8) as terminal:
        terminal.wait("llmchat needs 60 x 15")
        terminal.screen.resize(26, 90)
        terminal.process.setwinsize(26, 90)
        terminal.wait("Choose a model")
        leave(terminal)
