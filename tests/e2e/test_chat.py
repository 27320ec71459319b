"""The main job in a real terminal: the real program, the real engine, the real model."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from .terminal import Terminal

pytestmark = [pytest.mark.smollm2, pytest.mark.timeout(420)]

LLMCHAT = [sys.executable, "-m", "llmchat.cli", "--prefer", "quality"]
"""As published whatever the speed: a busy machine must not change what these tests load."""
FOLLOW_UP = "Which city did you just name? Answer with the name only."


@pytest.fixture
def home(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A person's empty home, off line."""
    yield {
        "LLMCHAT_HOME": str(tmp_path / "llmchat"),
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "1",
        "HOME": str(tmp_path),
    }


def engines(under: int) -> list[psutil.Process]:
    """Engine processes that descend from process ``under``."""
    return [child for child in psutil.Process(under).children(recursive=True) if child.is_running()]


def ready(screen: str) -> bool:
    """The chat is on the screen, a model is loaded, and no dialog is open."""
    return "Write a message" in screen and "predicted" in screen and "╭─ " not in screen


def chat(terminal: Terminal, text: str, answer: str) -> None:
    """Send ``text`` and wait until ``answer`` stands on the screen with the statistics of a finished reply."""
    terminal.type(text)
    terminal.wait(lambda screen: text[-20:] in screen)
    terminal.press("enter")
    terminal.wait(
        lambda screen: answer in screen and "tok/s · first token" in screen and "answering" not in screen, 90
    )


def test_ask_switch_ask_again_quit(home: dict[str, str], tmp_path: Path) -> None:
    with Terminal(LLMCHAT, columns=100, rows=30, env=home) as terminal:
        terminal.wait("Choose a model", 20)
        terminal.wait("SmolLM2-135M-Instruct", 20)
        terminal.press("enter")
        terminal.wait(ready, 180)
        chat(terminal, "What is the capital of France?", "Paris")
        first_engine = {process.pid for process in engines(terminal.process.pid)}
        assert first_engine

        terminal.press("f4")
        terminal.wait("Strategies")
        terminal.wait("cpu")
        terminal.press("down")
        terminal.wait("8 bit")
        terminal.press("enter")
        terminal.wait(lambda screen: "Switched to cpu" in screen and ready(screen), 180)
        assert not {p.pid for p in engines(terminal.process.pid)} & first_engine, "the old engine is still there"
        assert "Paris" in terminal.text, "the conversation is still on the screen"
        chat(terminal, FOLLOW_UP, "Paris")

        left = engines(terminal.process.pid)
        terminal.press("ctrl+q")
        assert terminal.wait_exit() == 0
    gone, alive = psutil.wait_procs(left, timeout=5)
    assert gone and not alive

    saved = list((tmp_path / "llmchat").rglob("*.sqlite3"))
    assert saved and all(path.stat().st_mode & 0o077 == 0 for path in saved)


def test_stop_keeps_the_part_and_a_killed_engine_comes_back(home: dict[str, str]) -> None:
    with Terminal([*LLMCHAT, "smollm2"], columns=120, rows=40, env=home) as terminal:
        terminal.wait(ready, 180)
        terminal.type("Tell me a very long story about a fox.")
        terminal.press("enter")
        terminal.wait("answering", 60)
        terminal.wait(lambda screen: screen.count("fox") > 2, 60)
        terminal.press("escape")
        terminal.wait("stopped", 10)
        part = terminal.text.count("fox")
        assert part > 2

        for engine in engines(terminal.process.pid):
            engine.kill()
        terminal.wait("The engine died", 10)
        terminal.press("escape")
        started = time.monotonic()
        terminal.press("f4")
        terminal.wait("Strategies", 10)
        terminal.press("enter")
        terminal.wait(ready, 120)
        assert time.monotonic() - started < 120
        chat(terminal, "What is the capital of France?", "Paris")
        assert terminal.text.count("fox") >= part
