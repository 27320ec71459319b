"""The session: what the UI and the command line call, and the only writer of ``SessionState``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from llmchat.domain.chat import Chat, Sampling
from llmchat.domain.plan import Plan, Ranking, Request
from llmchat.session.state import HubAccount, ModelRef, SessionState

Listener = Callable[[SessionState], None]


class Session:
    """One engine, one chat. All methods are called on the event loop's thread; none blocks it.

    Methods that take long (``open``, ``load``, ``send``) start a task and return at once; what comes of it is
    seen in ``state``. An error becomes ``state.problem``; nothing is raised at the UI.
    """

    state: SessionState

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` after every change of state; returns the function that ends it."""
        raise NotImplementedError

    async def start(self) -> None:
        """Spawn the engine (it imports torch meanwhile), probe the machine, list the models."""
        raise NotImplementedError

    async def close(self) -> None:
        """Save, end the engine, and wait for it."""
        raise NotImplementedError

    # --- the model -------------------------------------------------------------------------------------------
    def open(self, model: str | ModelRef, revision: str = "") -> None:
        """Resolve, fetch if needed, inspect, plan, and load the best plan."""
        raise NotImplementedError

    def load(self, plan: Plan) -> None:
        """Load this plan; with another one loaded this is a switch, and the chat goes on."""
        raise NotImplementedError

    def reload(self) -> None:
        """Start a new engine and load the last plan again (after a death)."""
        raise NotImplementedError

    def replan(self, request: Request) -> Ranking | None:
        """Plan anew for the open model with what will be free once the loaded plan is gone."""
        raise NotImplementedError

    # --- the chat --------------------------------------------------------------------------------------------
    def send(self, text: str) -> None:
        raise NotImplementedError

    def regenerate(self) -> None:
        """Answer the last user message again."""
        raise NotImplementedError

    def edit(self, turn_id: str, text: str) -> None:
        """Replace this user message, drop what came after it, and answer."""
        raise NotImplementedError

    def stop(self) -> bool:
        """Esc: stop the reply, else the load or download. False when nothing was running."""
        raise NotImplementedError

    def new_chat(self) -> None:
        raise NotImplementedError

    def chats(self, query: str = "") -> Sequence[Chat]:
        """Saved chats, newest first, without their turns."""
        raise NotImplementedError

    def resume(self, chat_id: str) -> None:
        raise NotImplementedError

    def delete_chat(self, chat_id: str) -> None:
        raise NotImplementedError

    def export(self, path: Path | None = None) -> Path:
        """Write the chat as Markdown with model, strategy, hardware and speed; returns where."""
        raise NotImplementedError

    def set_sampling(self, sampling: Sampling) -> None:
        raise NotImplementedError

    def set_system(self, text: str) -> None:
        raise NotImplementedError

    # --- the hub ---------------------------------------------------------------------------------------------
    async def login(self, token: str) -> HubAccount:
        """Check the token with the hub and store it. Raises AccessError or OfflineError."""
        raise NotImplementedError

    async def logout(self) -> HubAccount:
        raise NotImplementedError

    # --- the rest --------------------------------------------------------------------------------------------
    def dismiss(self) -> None:
        """The problem was read."""
        raise NotImplementedError

    def take_draft(self) -> str:
        """The text that was given back to the composer; clears it."""
        raise NotImplementedError

    def log_tail(self, lines: int = 200) -> str:
        """The end of the engine's log."""
        raise NotImplementedError
