"""Which chat is in hand: begun, resumed, deleted, exported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from llmchat.domain.chat import Chat
from llmchat.errors import LlmchatError, UsageError
from llmchat.session import chatting
from llmchat.session.background import Background
from llmchat.session.process.engine_host import EngineHost
from llmchat.session.replying import Replier
from llmchat.session.saved.keeper import Keeper
from llmchat.session.store import Store

STOP_SECONDS = 5.0
"""For a reply to stop before its chat is left; after that its engine is taken as hanging."""


class Chats:
    def __init__(
        self, store: Store, keeper: Keeper, replier: Replier, engine: EngineHost, background: Background
    ) -> None:
        self._store, self._keeper, self._replier, self._engine = store, keeper, replier, engine
        self._background = background
        self.changing = False
        """Another chat is wished for, and comes once the reply under way has ended."""
        self.system = ""
        """System prompt of the chat in hand, and of new ones."""

    def current(self) -> Chat:
        """The chat in hand, or a new one."""
        return self._store.state.chat or chatting.new_chat(self.system)

    def new(self) -> None:
        self._change(chatting.new_chat(self.system))

    def found(self, query: str) -> Sequence[Chat]:
        try:
            return self._keeper.chats(query)
        except LlmchatError as error:
            self._store.fail(error)
            return ()

    def resume(self, chat_id: str) -> None:
        try:
            chat, draft = chatting.without_open_question(self._keeper.get(chat_id))
        except LlmchatError as error:
            self._store.fail(error)
            return
        self._change(chat, draft)

    def delete(self, chat_id: str) -> None:
        try:
            self._keeper.delete(chat_id)
        except LlmchatError as error:
            self._store.fail(error)
            return
        chat = self._store.state.chat
        if chat and chat.id == chat_id:
            self._change(chatting.new_chat(self.system), forget=chat_id)

    def restore(self, chat_id: str) -> None:
        try:
            self._keeper.restore(chat_id)
        except LlmchatError as error:
            self._store.fail(error)

    def set_system(self, text: str) -> None:
        self.system = text
        chat = self._store.state.chat
        if chat:
            chat = replace(chat, system=text)
            self._store.update(chat=chat)
            if not self._replier.active:  # else the end of the reply saves it
                self._background.begin(self._keeper.save(chat))

    def export(self, path: Path | None) -> Path:
        from llmchat.session.saved import export

        chat = self._store.state.chat
        if chat is None or not chat.turns:
            raise UsageError("Nothing to export", "The chat is empty.")
        target = path or Path.cwd() / f"llmchat-{chatting.file_stem(chat)}.md"
        return export.write(target, export.markdown(chat, self._store.state))

    def _change(self, chat: Chat, draft: str = "", forget: str = "") -> None:
        """At once, or when the reply under way has ended. ``forget``: a deleted chat that its end saves anew."""
        if self._replier.active:
            self.changing = True
            self._background.begin(self._change_later(chat, draft, forget))
            return
        self.system = chat.system
        self._store.update(chat=chat, notices=(), seen_from=0, draft=draft or self._store.state.draft)

    async def _change_later(self, chat: Chat, draft: str, forget: str) -> None:
        try:
            await self._replier.finish(STOP_SECONDS)
            if self._replier.active:
                self._engine.kill()
                await self._replier.ended()
            if forget:
                await self._keeper.forget(forget)
            self._change(chat, draft)
        finally:
            self.changing = False
