"""The app over a recording session, with nothing that moves by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.pilot import Pilot

from llmchat.session.saved.settings import Settings
from llmchat.session.state import SessionState
from llmchat.ui.app import LlmchatApp
from llmchat.ui.themes import own_folder

from . import states
from .recording import RecordingSession


class Clock:
    """Seconds that stand still until a test moves them."""

    def __init__(self) -> None:
        self.now = states.NOW

    def __call__(self) -> float:
        return self.now


def app(
    state: SessionState, model: str | None = None, **settings: Any
) -> tuple[LlmchatApp, RecordingSession, Clock]:
    session, clock = RecordingSession(state, chats=states.SAVED), Clock()
    chosen = Settings(reduced_motion=True, **settings)
    return LlmchatApp(session, chosen, model, theme_folders=(own_folder(),), clock=clock), session, clock


async def until(pilot: Pilot[Any], condition: Callable[[], object], tries: int = 200) -> None:
    """Let the app work until ``condition`` holds; fail when it never does."""
    for _ in range(tries):
        if condition():
            return
        await pilot.pause(0.01)
    raise AssertionError("the condition never held")
