"""Saved chats: one SQLite file, shared by every llmchat that runs, readable by its owner only."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from llmchat.domain.chat import Chat, ReplyStats, Turn
from llmchat.errors import StorageError
from llmchat.session.saved.history_schema import BUSY_SECONDS, DAMAGED, explained, prepare, set_aside

__all__ = ["History"]

T = TypeVar("T")

KEPT_DELETED = 86400.0
"""Seconds that a deleted chat can be restored, at most: until llmchat is closed, or after a crash so long."""


class History:
    """To be used from one thread. Raises StorageError from every method; then nothing of that call is written.

    A damaged file is set aside under another name and a new one is begun: ``notes`` says so.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        """What the person should be told, in sentences."""
        self._deleted: set[str] = set()
        self._connection = self._guarded(self._open, self._open)

    def save(self, chat: Chat) -> None:
        """Make the file hold this chat as it is now, and only it under this id."""
        self._do(lambda db: _save(db, chat))

    def chats(self, query: str = "") -> list[Chat]:
        """Newest first, without turns; with a query, those that have every word of it in a turn or the title."""
        words = query.split()
        where = "".join(f" AND {_condition(word)}" for word in words)
        values = [value for word in words for value in _values(word)]
        sql = f"SELECT {CHAT} FROM chats WHERE deleted IS NULL{where} ORDER BY updated DESC, created DESC"
        return [_chat(row) for row in self._do(lambda db: db.execute(sql, values).fetchall())]

    def get(self, chat_id: str) -> Chat:
        """With all turns."""

        def read(db: sqlite3.Connection) -> tuple[object, list[sqlite3.Row]]:
            sql = f"SELECT {CHAT} FROM chats WHERE id = ? AND deleted IS NULL"
            chat = db.execute(sql, (chat_id,)).fetchone()
            turns = f"SELECT {TURN} FROM turns WHERE chat = ? ORDER BY position"
            return chat, db.execute(turns, (chat_id,)).fetchall()

        chat, turns = self._do(read)
        if not isinstance(chat, sqlite3.Row):
            raise StorageError("Chat not found", "This chat is no longer there: it may have been deleted.")
        return msgspec.structs.replace(_chat(chat), turns=tuple(_turn(row) for row in turns))

    def delete(self, chat_id: str) -> None:
        """``restore`` undoes it until the history is closed."""
        self._do(lambda db: db.execute("UPDATE chats SET deleted = ? WHERE id = ?", (time.time(), chat_id)))
        self._deleted.add(chat_id)

    def restore(self, chat_id: str) -> None:
        self._do(lambda db: db.execute("UPDATE chats SET deleted = NULL WHERE id = ?", (chat_id,)))
        self._deleted.discard(chat_id)

    def close(self) -> None:
        """What was deleted is now gone for good."""
        try:
            self._do(self._purge)
        finally:
            self._connection.close()

    def _purge(self, db: sqlite3.Connection) -> None:
        db.execute("DELETE FROM chats WHERE deleted < ?", (time.time() - KEPT_DELETED,))
        db.executemany("DELETE FROM chats WHERE id = ? AND deleted IS NOT NULL", [(i,) for i in self._deleted])

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """``work`` in one transaction; once more in a new file if the old one turns out to be damaged."""

        def attempt() -> T:
            with self._connection as db:
                return work(db)

        def anew() -> T:
            self._connection.close()
            self._connection = self._open()
            return attempt()

        return self._guarded(attempt, anew)

    def _guarded(self, attempt: Callable[[], T], anew: Callable[[], T]) -> T:
        try:
            return attempt()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) not in DAMAGED:
                raise explained(error, self.path) from error
        try:
            aside = set_aside(self.path)
            self.notes.append(f"The saved chats were damaged and are now in {aside}; a new history has begun.")
            return anew()
        except (sqlite3.Error, OSError) as error:
            raise explained(error, self.path) from error

    def _open(self) -> sqlite3.Connection:
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise explained(error, self.path) from error
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS)
        connection.row_factory = sqlite3.Row
        try:
            prepare(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection


CHAT = "id, title, created, updated, model, strategy, precision, system"
TURN = "id, role, content, thinking, created, model, label, stats"


def _save(db: sqlite3.Connection, chat: Chat) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.execute(
        f"INSERT INTO chats ({CHAT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
        "title = excluded.title, created = excluded.created, updated = excluded.updated, model = excluded.model, "
        "strategy = excluded.strategy, precision = excluded.precision, system = excluded.system, "
        "deleted = iif(deleted < excluded.updated, NULL, deleted)",
        (chat.id, chat.title, chat.created, chat.updated, chat.model, chat.strategy, chat.precision, chat.system),
    )
    stored = {
        row["position"]: tuple(row)[1:]
        for row in db.execute(f"SELECT position, {TURN} FROM turns WHERE chat = ?", (chat.id,))
    }
    rows = [_row(turn) for turn in chat.turns]
    changed = [(chat.id, i, *row) for i, row in enumerate(rows) if stored.get(i) != row]
    db.execute("DELETE FROM turns WHERE chat = ? AND position >= ?", (chat.id, len(rows)))
    db.executemany(
        f"INSERT INTO turns (chat, position, {TURN}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (chat, position) DO UPDATE SET "
        + ", ".join(f"{column} = excluded.{column}" for column in TURN.split(", ")),
        changed,
    )


def _row(turn: Turn) -> tuple[object, ...]:
    stats = msgspec.json.encode(turn.stats).decode() if turn.stats else None
    return (
        turn.id,
        turn.role,
        _text(turn.content),
        _text(turn.thinking),
        turn.created,
        turn.model,
        turn.label,
        stats,
    )


def _text(text: str) -> str:
    """Half a surrogate pair, as a broken-off token can leave it, cannot be stored as UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _turn(row: sqlite3.Row) -> Turn:
    stats = msgspec.json.decode(row["stats"], type=ReplyStats) if row["stats"] else None
    return msgspec.convert({**dict(row), "stats": stats}, Turn)


def _chat(row: sqlite3.Row) -> Chat:
    return Chat(**dict(row))


def _condition(word: str) -> str:
    turns = "rowid IN (SELECT rowid FROM words WHERE words MATCH ?)" if len(word) >= 3 else LIKE.format("content")
    return f"({LIKE.format('title')} OR id IN (SELECT chat FROM turns WHERE {turns}))"


LIKE = "{} LIKE ? ESCAPE '\\'"


def _values(word: str) -> tuple[str, str]:
    """For the two places of ``_condition``. The index of words knows sequences of three characters and more."""
    escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    quoted = '"' + word.replace('"', '""') + '"'
    return f"%{escaped}%", quoted if len(word) >= 3 else f"%{escaped}%"
