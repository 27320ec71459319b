"""A session that does nothing but write down what it is asked, and hands out the states it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from llmchat.domain.chat import Chat, Sampling
from llmchat.domain.plan import Plan, Ranking, Request
from llmchat.errors import LlmchatError
from llmchat.session.state import HubAccount, ModelRef, SessionState


class RecordingSession:
    """``calls`` are (name, arguments); ``push`` is what the real one does after a change."""

    def __init__(self, state: SessionState, *, chats: Sequence[Chat] = ()) -> None:
        self.state = state
        self.request, self.sampling, self.system = Request(), Sampling(), ""
        self.calls: list[tuple[Any, ...]] = []
        self.saved = list(chats)
        self.login_error: LlmchatError | None = None
        self._listeners: list[Callable[[SessionState], None]] = []

    def push(self, state: SessionState) -> None:
        self.state = state
        for listener in self._listeners:
            listener(state)

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]

    def subscribe(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def start(self) -> None:
        self.calls.append(("start",))

    async def close(self) -> None:
        self.calls.append(("close",))

    def open(self, model: str | ModelRef, revision: str = "") -> None:
        self.calls.append(("open", model))

    def load(self, plan: Plan) -> None:
        self.calls.append(("load", plan))

    def reload(self) -> None:
        self.calls.append(("reload",))

    def replan(self, request: Request) -> Ranking | None:
        self.calls.append(("replan", request))
        return self.state.ranking

    def send(self, text: str) -> None:
        self.calls.append(("send", text))

    def regenerate(self) -> None:
        self.calls.append(("regenerate",))

    def edit(self, turn_id: str, text: str) -> None:
        self.calls.append(("edit", turn_id, text))

    def stop(self) -> bool:
        self.calls.append(("stop",))
        return self.state.busy

    def new_chat(self) -> None:
        self.calls.append(("new_chat",))

    def chats(self, query: str = "") -> Sequence[Chat]:
        return [chat for chat in self.saved if query.lower() in chat.title.lower()]

    def resume(self, chat_id: str) -> None:
        self.calls.append(("resume", chat_id))

    def delete_chat(self, chat_id: str) -> None:
        self.calls.append(("delete_chat", chat_id))
        self._deleted = [chat for chat in self.saved if chat.id == chat_id]
        self.saved = [chat for chat in self.saved if chat.id != chat_id]

    def restore_chat(self, chat_id: str) -> None:
        self.calls.append(("restore_chat", chat_id))
        self.saved = [*self._deleted, *self.saved]

    def export(self, path: Path | None = None) -> Path:
        self.calls.append(("export", path))
        return path or Path("/home/ada/llmchat/the-capital-of-france.md")

    def set_sampling(self, sampling: Sampling) -> None:
        self.calls.append(("set_sampling", sampling))

    def set_folders(self, folders: Sequence[str]) -> None:
        self.calls.append(("set_folders", tuple(folders)))

    def set_system(self, text: str) -> None:
        self.calls.append(("set_system", text))

    async def login(self, token: str) -> HubAccount:
        self.calls.append(("login", token))
        if self.login_error:
            raise self.login_error
        return HubAccount(name="ada", source="stored", role="read")

    async def logout(self) -> HubAccount:
        self.calls.append(("logout",))
        return HubAccount()

    def dismiss(self) -> None:
        from msgspec.structs import replace

        self.calls.append(("dismiss",))
        self.push(replace(self.state, problem=None))

    def take_draft(self) -> str:
        from msgspec.structs import replace

        text = self.state.draft
        self.push(replace(self.state, draft=""))
        return text

    def log_tail(self, lines: int = 200) -> str:
        return "torch 2.13.0, CUDA 13.0\nloading 30 shards\n\x1b[31mCUDA out of memory\x1b[0m\n"
