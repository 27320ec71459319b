from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmchat.domain.chat import Chat, ReplyStats, Turn
from llmchat.errors import StorageError
from llmchat.session.saved import history as module
from llmchat.session.saved.history import History

NOW = 1_780_000_000.0


def turn(number: int, content: str, role: str = "user") -> Turn:
    return Turn(id=f"t{number}", role=role, content=content, created=NOW + number)


def chat(name: str = "a", *contents: str, updated: float = NOW) -> Chat:
    turns = tuple(turn(i, text, "assistant" if i % 2 else "user") for i, text in enumerate(contents))
    return Chat(id=name, title=f"Title {name}", created=NOW, updated=updated, turns=turns)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite3"


@pytest.fixture
def history(path: Path) -> Iterator[History]:
    history = History(path)
    yield history
    history.close()


def test_everything_of_a_chat_comes_back(history: History) -> None:
    stats = ReplyStats(
        prompt_tokens=5, reused_tokens=2, tokens=7, time_to_first_token=0.5, seconds=1.25, reason="stopped"
    )
    answer = replace(turn(1, "Hi ü\n```", "assistant"), thinking="hm", model="m", label="cpu · 4bit", stats=stats)
    saved = replace(
        chat("a", "Hello"),
        turns=(turn(0, "Hello"), answer),
        model="m",
        strategy="cpu",
        precision="4bit",
        system="s",
    )
    history.save(saved)
    assert history.get("a") == saved


def test_saving_again_replaces(history: History) -> None:
    history.save(chat("a", "one", "two", "three"))
    history.save(chat("a", "one", "other"))
    assert [t.content for t in history.get("a").turns] == ["one", "other"]
    assert [c.id for c in history.chats("three")] == []
    assert [c.id for c in history.chats("other")] == ["a"]


def test_the_list_is_newest_first_and_without_turns(history: History) -> None:
    for name, updated in (("a", NOW), ("b", NOW + 2), ("c", NOW + 1)):
        history.save(chat(name, "x", updated=updated))
    assert [c.id for c in history.chats()] == ["b", "c", "a"]
    assert all(c.turns == () for c in history.chats())


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("france", ["a"]),
        ("capit", ["a"]),
        ("CAPITAL fra", ["a"]),
        ("Paris capital", ["a"]),
        ("title", ["b", "a"]),
        ("100%", ["b"]),
        ("_", ["b"]),
        ("is", ["b", "a"]),
        ('say "no', ["b"]),
        ("東京都", ["b"]),
        ("nothing", []),
        ("capital nothing", []),
        ("a AND NOT b*", []),
        ("", ["b", "a"]),
    ],
)
def test_search(history: History, query: str, found: list[str]) -> None:
    history.save(chat("a", "What is the capital of France?", "Paris"))
    history.save(chat("b", "100% of snake_case", 'This I say "no" to', "私は東京都に住む", updated=NOW + 1))
    assert [c.id for c in history.chats(query)] == found


def test_delete_restore_and_gone_after_closing(path: Path) -> None:
    history = History(path)
    for name in "ab":
        history.save(chat(name, "secret words"))
        history.delete(name)
    assert history.chats() == [] and history.chats("secret") == []
    with pytest.raises(StorageError, match="no longer"):
        history.get("a")
    history.restore("a")
    assert [c.id for c in history.chats("secret")] == ["a"]
    history.close()
    again = History(path)
    again.restore("b")
    assert [c.id for c in again.chats()] == ["a"]
    again.close()
    assert [row[0] for row in sqlite3.connect(path).execute("SELECT DISTINCT chat FROM turns")] == ["a"]


def test_a_deleted_chat_stays_deleted_when_saved_unchanged_and_comes_back_when_it_goes_on(
    history: History,
) -> None:
    history.save(chat("a", "x", updated=time.time()))
    history.delete("a")
    history.save(chat("a", "x", updated=time.time() - 10))
    assert history.chats() == []
    history.save(chat("a", "x", "y", updated=time.time() + 10))
    assert [c.id for c in history.chats()] == ["a"]


def test_the_file_is_the_owner_s_only(history: History, path: Path) -> None:
    history.save(chat("a", "x"))
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name


def test_an_unknown_chat(history: History) -> None:
    with pytest.raises(StorageError) as caught:
        history.get("nobody")
    assert caught.value.problem.title == "Chat not found"


def test_a_newer_file_is_left_untouched(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE future (x)")
    db.execute("PRAGMA user_version = 99")
    db.commit()
    db.close()
    before = path.read_bytes()
    with pytest.raises(StorageError, match="version 99"):
        History(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_is_no_database_is_set_aside(path: Path) -> None:
    path.write_text("not a database, but somebody's words " * 200)
    history = History(path)
    history.save(chat("a", "x"))
    assert [c.id for c in history.chats()] == ["a"]
    aside = [file for file in path.parent.iterdir() if "damaged" in file.name]
    assert len(aside) == 1 and aside[0].read_text().startswith("not a database")
    assert str(aside[0]) in history.notes[0]
    history.close()


def test_damage_found_while_saving_is_set_aside_and_the_chat_is_saved(path: Path) -> None:
    history = History(path)
    for number in range(30):
        history.save(chat(f"c{number}", "words " * 500))
    history.close()
    data = bytearray(path.read_bytes())
    data[4096 : len(data)] = b"\xa5" * (len(data) - 4096)  # all but the first page
    path.write_bytes(data)
    history = History(path)
    history.save(chat("new", "x"))
    assert [c.id for c in history.chats()] == ["new"]
    assert len(history.notes) == 1
    history.close()


def test_two_files_set_aside_in_one_second(path: Path) -> None:
    for _ in range(2):
        path.write_text("rubbish " * 1000)
        History(path).close()
    assert len([file for file in path.parent.iterdir() if "damaged" in file.name]) == 2


def test_a_full_disk_is_told_and_leaves_what_was_saved(history: History) -> None:
    history.save(chat("a", "kept"))
    pages = history._connection.execute("PRAGMA page_count").fetchone()[0]
    history._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageError, match="disk is full") as caught:
        history.save(chat("a", "kept", "x" * 1_000_000))
    assert "disk space" in caught.value.problem.remedy
    history._connection.execute("PRAGMA max_page_count = 1000000")
    assert [t.content for t in history.get("a").turns] == ["kept"]
    history.save(chat("a", "kept", "goes on"))
    assert len(history.get("a").turns) == 2


def test_a_read_only_file_is_told(path: Path) -> None:
    history = History(path)
    history._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(StorageError, match="read-only"):
        history.save(chat("a", "x"))


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Not a directory"):
        History(tmp_path / "file" / "history.sqlite3")


def test_another_program_that_holds_the_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_SECONDS", 0.05)
    history = History(path)
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match="locked"):
        history.save(chat("a", "x"))
    other.rollback()
    history.save(chat("a", "x"))
    assert len(history.chats()) == 1


WRITER = """
import sys
from pathlib import Path
from llmchat.domain.chat import Chat, Turn
from llmchat.session.saved.history import History
name, path = sys.argv[1], Path(sys.argv[2])
history = History(path)
for i in range(20):
    turns = tuple(Turn(id=f"{name}{j}", role="user", content=f"{name} {j}", created=1.0) for j in range(i + 1))
    history.save(Chat(id=name, created=1.0, updated=float(i), turns=turns))
history.close()
"""


def test_several_processes_at_once(path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, name, str(path)]) for name in "abc"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    history = History(path)
    assert sorted(c.id for c in history.chats()) == ["a", "b", "c"]
    assert all(len(history.get(name).turns) == 20 for name in "abc")
    history.close()


def test_half_a_character_can_be_saved(history: History) -> None:
    history.save(chat("a", "broken \ud83d off"))
    assert history.get("a").turns[0].content == "broken ? off"


def test_a_long_chat_is_saved_in_a_moment(history: History) -> None:
    long = chat("a", *[f"message {i} " * 40 for i in range(2000)])
    history.save(long)
    started = time.perf_counter()
    history.save(replace(long, turns=(*long.turns, turn(2000, "one more"))))
    assert time.perf_counter() - started < 0.5
    assert len(history.get("a").turns) == 2001
