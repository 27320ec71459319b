"""Chats on disk: all history access in one thread of its own, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from llmchat.domain.chat import Chat
from llmchat.errors import LlmchatError
from llmchat.session import paths

if TYPE_CHECKING:
    from llmchat.session.saved.history import History

T = TypeVar("T")


class Keeper:
    """``keep`` False: nothing is written, and there are no chats. A chat that cannot be saved is told once
    through ``complain``, in sentences; the conversation goes on."""

    def __init__(self, keep: bool, complain: Callable[[str], None]) -> None:
        self._keep = keep
        self._complain = complain
        self._complained = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="llmchat-history")
        self._history: History | None = None

    async def save(self, chat: Chat | None) -> None:
        """Written when this returns. A chat without messages is not kept."""
        if not self._keep or chat is None or not chat.turns:
            return
        try:
            await asyncio.shield(asyncio.wrap_future(self._submit(lambda history: history.save(chat))))
        except LlmchatError as error:
            if not self._complained:
                self._complained = True
                self._complain(f"This chat is not being saved: {error.message} {error.remedy}".rstrip())
        self._tell_notes()

    async def forget(self, chat_id: str) -> None:
        """Drop a chat that became empty again."""
        if self._keep:
            try:
                await asyncio.wrap_future(self._submit(lambda history: history.delete(chat_id)))
            except LlmchatError as error:
                self._complain(f"The chat could not be deleted: {error.message}")

    def chats(self, query: str = "") -> Sequence[Chat]:
        """Newest first, without turns. Waits for saves under way: milliseconds. Raises StorageError."""
        return self._submit(lambda history: history.chats(query)).result() if self._keep else ()

    def get(self, chat_id: str) -> Chat:
        """Raises StorageError, also for an unknown id."""
        return self._submit(lambda history: history.get(chat_id)).result()

    def delete(self, chat_id: str) -> None:
        self._submit(lambda history: history.delete(chat_id)).result()

    def restore(self, chat_id: str) -> None:
        """Undo ``delete``."""
        self._submit(lambda history: history.restore(chat_id)).result()

    async def close(self) -> None:
        if self._history is not None:
            await asyncio.wrap_future(self._submit(lambda history: history.close()))
            self._history = None
        self._thread.shutdown(wait=False)

    def _tell_notes(self) -> None:
        """What the history has to say about its file."""
        if self._history is not None:
            notes, self._history.notes = self._history.notes, []
            for note in notes:
                self._complain(note)

    def _submit(self, work: Callable[[History], T]) -> Future[T]:
        return self._thread.submit(lambda: work(self._opened()))

    def _opened(self) -> History:
        if self._history is None:
            from llmchat.session.saved.history import History

            self._history = History(paths.data_dir() / "history.sqlite3")
        return self._history
