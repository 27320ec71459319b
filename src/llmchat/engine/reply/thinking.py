"""Splits a reply, as it streams, into what the model thinks and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["answer", "thinking"]
Part = tuple[Kind, str]


@dataclass(frozen=True)
class Style:
    """How a family of models marks its thinking."""

    open: str
    close: str
    silent: tuple[str, ...] = ()
    """Marks between thinking and answer that are neither."""


STYLES = (
    Style("<think>", "</think>"),  # Qwen3, DeepSeek-R1, SmolLM3
    Style("[THINK]", "[/THINK]"),  # Magistral
    Style("<|channel>thought\n", "<channel|>"),  # Gemma 4
    Style(  # gpt-oss
        "<|channel|>analysis<|message|>",
        "<|end|>",
        ("<|start|>assistant", "<|channel|>final<|message|>", "<|channel|>commentary<|message|>"),
    ),
)
"""From the models' chat templates."""

MARKS = frozenset({"[THINK]", "[/THINK]", "<|channel>", "<channel|>"}) | {
    f"<|{name}|>" for name in ("channel", "message", "end", "start")
}
"""Those that are special tokens in some tokenizer: a detokenizer must keep them as text for the splitter."""


def inner(tokenizer: Any) -> frozenset[int]:
    """Tokens that end a turn elsewhere and here only the thinking: gpt-oss's ``<|end|>``."""
    vocabulary = tokenizer.get_added_vocab()
    return frozenset({vocabulary["<|end|>"]} if {"<|channel|>", "<|end|>"} <= set(vocabulary) else ())


def opened(prompt: str) -> Style | None:
    """The style whose opening mark ends the prompt: some templates begin the thinking themselves."""
    tail = prompt.rstrip()
    return next((style for style in STYLES if tail.endswith(style.open.rstrip())), None)


class Splitter:
    """Marks may come in pieces. A reply thinks only before it answers; thinking that is never closed stays so."""

    def __init__(self, inside: Style | None = None) -> None:
        """``inside``: the prompt has opened the thinking already."""
        self._inside = inside
        self._style = inside
        self._held = ""
        self._begun = False
        """Whether the answer has begun: from then on its text is only text."""
        self._trim = True
        """Whether white space is dropped until some text comes: at the start of thinking, and after it."""

    def push(self, text: str) -> list[Part]:
        """The parts that are sure by now."""
        self._held += text
        parts: list[Part] = []
        while self._step(parts):
            pass
        return parts

    def flush(self) -> list[Part]:
        """The rest, at the end of the reply."""
        kind: Kind = "thinking" if self._inside else "answer"
        rest, self._held = self._held, ""
        return [(kind, rest)] if rest and not (self._trim and self._style and rest.isspace()) else []

    def _step(self, parts: list[Part]) -> bool:
        """Take one piece off what is held; False when more text is needed."""
        if not self._held:
            return False
        if self._inside:
            return self._think(parts, self._inside)
        if self._begun:
            self._emit(parts, "answer", self._held)
            self._held = ""
            return False
        return self._look(parts)

    def _think(self, parts: list[Part], style: Style) -> bool:
        """Inside thinking: all up to the closing mark, less what may be its beginning."""
        text, mark, rest = self._held.partition(style.close)
        if mark:
            self._emit(parts, "thinking", text)
            self._held, self._inside, self._trim = rest, None, True
            return True
        keep = _overlap(text, style.close)
        self._held = text[len(text) - keep :]
        self._emit(parts, "thinking", text[: len(text) - keep])
        return False

    def _look(self, parts: list[Part]) -> bool:
        """Before the answer: an opening mark, a silent one, or the answer's first text."""
        text = self._held.lstrip()
        for style in STYLES:
            if text.startswith(style.open):
                self._held, self._inside, self._style = text.removeprefix(style.open), style, style
                self._trim = True
                return True
            for mark in style.silent:
                if text.startswith(mark):
                    self._held, self._style = text.removeprefix(mark), style
                    return True
        marks = [mark for style in STYLES for mark in (style.open, *style.silent)]
        if any(mark.startswith(text) for mark in marks):
            return False
        self._begun = True
        return True

    def _emit(self, parts: list[Part], kind: Kind, text: str) -> None:
        if self._trim and self._style:
            text = text.lstrip()
        if text:
            self._trim = False
            parts.append((kind, text))


def _overlap(text: str, mark: str) -> int:
    """Length of the longest end of ``text`` that begins ``mark``."""
    return next((n for n in range(min(len(text), len(mark) - 1), 0, -1) if mark.startswith(text[-n:])), 0)
