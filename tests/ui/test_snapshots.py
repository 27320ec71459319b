"""Pictures of every screen.

After a wanted change: ``pytest tests/ui/test_snapshots.py --snapshot-update``, and look at what changed before
committing it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from textual.pilot import Pilot

from llmchat.session.state import SessionState

from . import states
from .apps import app

SIZES = ((80, 24), (100, 30), (160, 45))
Compare = Callable[..., bool]


@dataclass(frozen=True)
class Shot:
    state: Callable[..., SessionState]
    """Called with ``gpus=True`` or ``False``."""
    press: tuple[str, ...] = ()


SHOTS = {
    "picker": Shot(states.idle),
    "login": Shot(states.signed_in, ("f5",)),
    "load": Shot(states.loading),
    "chat": Shot(states.generating),
    "panel": Shot(states.offloaded),
    "switcher": Shot(states.ready, ("f4",)),
    "refusal": Shot(states.ready, ("f4", *["down"] * 8)),
    "problem": Shot(states.failed),
    "help": Shot(states.ready, ("f1",)),
    "settings": Shot(states.ready, ("f2",)),
    "chats": Shot(states.ready, ("ctrl+r",)),
}


def _look(compare: Compare, name: str, size: tuple[int, int], *, gpus: bool = True, **settings: Any) -> bool:
    shot = SHOTS[name]

    async def settle(pilot: Pilot[Any]) -> None:
        await pilot.pause()
        for key in shot.press:
            await pilot.press(key)
            await pilot.pause()

    running, _, _ = app(shot.state(gpus=gpus), **settings)
    return compare(running, terminal_size=size, run_before=settle)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("name", SHOTS)
def test_four_gpus(snap_compare: Compare, name: str, theme: str, size: tuple[int, int]) -> None:
    assert _look(snap_compare, name, size, theme=theme)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", [name for name in SHOTS if name not in ("help", "settings", "chats", "login")])
def test_no_gpu(snap_compare: Compare, name: str, size: tuple[int, int]) -> None:
    assert _look(snap_compare, name, size, gpus=False)


@pytest.mark.parametrize("name", ["chat", "switcher"])
def test_high_contrast(snap_compare: Compare, name: str) -> None:
    assert _look(snap_compare, name, (80, 24), theme="high-contrast")


@pytest.mark.parametrize("name", ["chat", "switcher"])
def test_ascii(snap_compare: Compare, name: str) -> None:
    assert _look(snap_compare, name, (80, 24), ascii=True)


def test_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert _look(snap_compare, "chat", (80, 24))


def test_smallest(snap_compare: Compare) -> None:
    assert _look(snap_compare, "chat", (60, 15))


def test_too_small(snap_compare: Compare) -> None:
    assert _look(snap_compare, "chat", (50, 10))
