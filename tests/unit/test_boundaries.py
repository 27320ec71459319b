"""The import order and the parent's freedom from torch, statically and at run time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "transformers", "accelerate", "bitsandbytes", "rmm", "gguf")


def imported_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after ``code``."""
    script = f"import sys\n{code}\nsys.stderr.write(' '.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_the_layers_are_kept() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "module",
    [
        "llmchat.ui.app",
        "llmchat.cli",
        "llmchat.commands.ask",
        "llmchat.commands.chat",
        "llmchat.session.controller",
    ],
)
def test_the_parent_never_imports_torch(module: str) -> None:
    assert not imported_by(f"import {module}") & set(HEAVY)


@pytest.mark.parametrize(
    "module", ["llmchat.session.controller", "llmchat.engine.channel", "llmchat.domain.planner"]
)
def test_only_ui_knows_textual(module: str) -> None:
    assert not imported_by(f"import {module}") & {"textual", "rich"}


@pytest.mark.parametrize("line", ["--version", "--help", "ask --help", "plan --help", "doctor --help"])
def test_help_and_version_import_nothing_heavy(line: str) -> None:
    modules = imported_by(f"from llmchat.cli import main\nassert main({line.split()!r}) == 0")
    heavy = {*HEAVY, "textual", "rich", "huggingface_hub", "psutil", "pynvml", "asyncio", "tomlkit", "numpy"}
    assert not modules & heavy


def test_the_chat_spawns_the_engine_before_it_imports_textual() -> None:
    modules = imported_by("import llmchat.commands.chat")
    assert not modules & {"textual", "rich", "huggingface_hub", "psutil", "pynvml"}
