"""The history's file: its tables, its version, and what can be wrong with it."""

from __future__ import annotations

import errno
import sqlite3
import time
from pathlib import Path

from llmchat.errors import StorageError

__all__ = ["DAMAGED", "VERSION", "explained", "prepare", "set_aside"]

VERSION = 1
"""In the file's ``user_version``. A file of a newer llmchat is left untouched."""

DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

SCHEMA = """
CREATE TABLE chats (
  id TEXT PRIMARY KEY,
  title TEXT NOT NULL,
  created REAL NOT NULL,
  updated REAL NOT NULL,
  model TEXT NOT NULL,
  strategy TEXT NOT NULL,
  precision TEXT NOT NULL,
  system TEXT NOT NULL,
  deleted REAL
);
CREATE INDEX chats_by_time ON chats (updated);
CREATE TABLE turns (
  rowid INTEGER PRIMARY KEY,
  chat TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  id TEXT NOT NULL,
  role TEXT NOT NULL,
  content TEXT NOT NULL,
  thinking TEXT NOT NULL,
  created REAL NOT NULL,
  model TEXT NOT NULL,
  label TEXT NOT NULL,
  stats TEXT,
  UNIQUE (chat, position)
);
CREATE VIRTUAL TABLE words USING fts5(content, content='turns', content_rowid='rowid', tokenize='trigram');
CREATE TRIGGER turns_added AFTER INSERT ON turns BEGIN
  INSERT INTO words (rowid, content) VALUES (new.rowid, new.content);
END;
CREATE TRIGGER turns_removed AFTER DELETE ON turns BEGIN
  INSERT INTO words (words, rowid, content) VALUES ('delete', old.rowid, old.content);
END;
CREATE TRIGGER turns_changed AFTER UPDATE OF content ON turns BEGIN
  INSERT INTO words (words, rowid, content) VALUES ('delete', old.rowid, old.content);
  INSERT INTO words (rowid, content) VALUES (new.rowid, new.content);
END;
"""


BUSY_SECONDS = 5.0
"""To wait for another llmchat that is writing."""


def prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables in a new file, check the version of an old one. Raises sqlite3.Error, StorageError."""
    version = _version(db)
    if version > VERSION:
        raise StorageError(
            "The history is of a newer llmchat",
            f"{path} has version {version}, and this llmchat knows up to {VERSION}. It was left untouched.",
            "Update llmchat to see and save chats.",
        )
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA secure_delete = ON")
    _enter_wal(db)
    db.execute("PRAGMA synchronous = NORMAL")
    if version == 0:
        _create(db)


def _enter_wal(db: sqlite3.Connection) -> None:
    """SQLite does not wait for the lock that this change needs: another process may be making it just now."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(0.02)


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _create(db: sqlite3.Connection) -> None:
    """Once, also when two processes begin at the same moment."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        if _version(db) == 0:
            for statement in _statements(SCHEMA):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")


def _statements(script: str) -> list[str]:
    """``executescript`` would commit first, and give the lock away."""
    statements, current = [], ""
    for line in script.strip().splitlines():
        current += line + "\n"
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements


def set_aside(path: Path) -> Path:
    """Give a damaged file a name with date and time, and its companions too. Raises OSError."""
    stem = f"{path.stem}-damaged-{time.strftime('%Y-%m-%d-%H%M%S')}"
    target, number = path.with_name(stem + path.suffix), 1
    while target.exists():
        number += 1
        target = path.with_name(f"{stem}-{number}{path.suffix}")
    path.rename(target)
    for ending in ("-wal", "-shm"):
        companion = path.with_name(path.name + ending)
        if companion.exists():
            companion.rename(target.with_name(target.name + ending))
    return target


def explained(error: sqlite3.Error | OSError, path: Path) -> StorageError:
    """What happened, in words."""
    if isinstance(error, OSError):
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = error.strerror or str(error)
    else:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        full = code == sqlite3.SQLITE_FULL
        reason = {
            sqlite3.SQLITE_FULL: "the disk is full",
            sqlite3.SQLITE_READONLY: "the file or its folder is read-only",
            sqlite3.SQLITE_BUSY: "another program holds it locked",
            sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
        }.get(code, str(error))
    return StorageError(
        "The history cannot be used",
        f"{path}: {reason}.",
        "Free some disk space." if full else "Check the disk and the rights of that folder.",
    )
