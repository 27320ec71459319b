"""Messages rearranged for templates that are particular, and for models that know no messages."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from llmchat.domain.chat import Message

JOINER = "\u2060"
"""WORD JOINER: invisible, and part of no control token."""


def split(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """The system prompt, if any, and the turns after it."""
    head = 1 if messages and messages[0].role == "system" else 0
    return list(messages[:head]), list(messages[head:])


def starts(turns: Sequence[Message]) -> list[int]:
    """Where a shortened conversation may begin: at its start, or at a person's message that follows an answer."""
    later = [
        index
        for index in range(1, len(turns))
        if turns[index].role == "user" and turns[index - 1].role == "assistant"
    ]
    return [0, *later]


def fold_system(messages: Sequence[Message]) -> list[Message]:
    """The system prompt as the beginning of the first user message."""
    system, turns = messages[0].content, list(messages[1:])
    for index, message in enumerate(turns):
        if message.role == "user":
            turns[index] = replace(message, content=f"{system}\n\n{message.content}")
            return turns
    return [Message(role="user", content=system), *turns]


def merge(messages: Sequence[Message]) -> list[Message]:
    """Neighbours of the same role as one message."""
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1].role == message.role:
            merged[-1] = replace(message, content=f"{merged[-1].content}\n\n{message.content}")
        else:
            merged.append(message)
    return merged


def defuse(messages: Sequence[Message], controls: Sequence[str]) -> list[Message]:
    """Control tokens broken by an invisible character, so that a tokenizer no longer takes them for such."""
    defused = []
    for message in messages:
        content = message.content
        for control in sorted(controls, key=len, reverse=True):
            content = content.replace(control, control[:1] + JOINER + control[1:])
        defused.append(replace(message, content=content))
    return defused


def plain(messages: Sequence[Message]) -> str:
    """One text. An answer follows what it continues at once; before a new message a line ends, before the first
    one the system prompt does with an empty line."""
    text, last = "", ""
    for message in messages:
        if last == "system":
            text += "\n\n"
        elif last and message.role != "assistant" and not (text[-1:].isspace() or message.content[:1].isspace()):
            text += "\n"
        text, last = text + message.content, message.role
    return text
