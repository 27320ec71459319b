"""The conversation's changes, as pure functions from chat to chat."""

from __future__ import annotations

import re
import time
import uuid

from msgspec.structs import replace

from llmchat.domain.chat import Chat, Turn

TITLE_LENGTH = 60
"""Characters."""


def new_chat(system: str = "") -> Chat:
    now = time.time()
    return Chat(id=uuid.uuid4().hex, created=now, updated=now, system=system)


def new_id() -> str:
    return uuid.uuid4().hex


def asked(chat: Chat, text: str) -> Chat:
    """With the person's message; the first one gives the chat its title."""
    turn = Turn(id=new_id(), role="user", content=text, created=time.time())
    return replace(chat, turns=(*chat.turns, turn), title=chat.title or title(text), updated=turn.created)


def answered(chat: Chat, turn: Turn) -> Chat:
    return replace(chat, turns=(*chat.turns, turn), updated=time.time())


def until_last_question(chat: Chat) -> Chat | None:
    """Up to and with the last user message; None when there is none."""
    for end in range(len(chat.turns), 0, -1):
        if chat.turns[end - 1].role == "user":
            return replace(chat, turns=chat.turns[:end])
    return None


def edited(chat: Chat, turn_id: str, text: str) -> Chat | None:
    """Up to this user message, which now says ``text``; None when the chat has no such message."""
    for index, turn in enumerate(chat.turns):
        if turn.id == turn_id and turn.role == "user":
            changed = replace(chat, turns=chat.turns[:index], title=chat.title if index else "")
            return asked(changed, text)
    return None


def without_open_question(chat: Chat) -> tuple[Chat, str]:
    """Without a last user message that nobody answered, and that message."""
    if chat.turns and chat.turns[-1].role == "user":
        return replace(chat, turns=chat.turns[:-1]), chat.turns[-1].content
    return chat, ""


def file_stem(chat: Chat) -> str:
    """A file name for the chat, without ending: ``2026-03-01-the-capital-of-france``."""
    words = re.sub(r"[^\w]+", "-", chat.title.lower()).strip("-_")[:40].strip("-_")
    return f"{time.strftime('%Y-%m-%d', time.localtime(chat.created))}-{words or chat.id[:8]}"


def title(text: str) -> str:
    """The start of the first message, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"
