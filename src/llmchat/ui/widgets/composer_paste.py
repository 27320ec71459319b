"""Long pastes: a placeholder stands for them in the composer, and they come back when the text is sent."""

from __future__ import annotations

import re

LONG_CHARACTERS = 1_000
LONG_LINES = 8

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def clean(text: str) -> str:
    """What a terminal sent as a paste, with plain line breaks and without characters that could act on it."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def is_long(text: str) -> bool:
    return len(text) > LONG_CHARACTERS or text.count("\n") >= LONG_LINES


class Pastes:
    """The folded pastes of one draft."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """The placeholder that stands for ``text``: no other paste of the draft has the same."""
        name = f"pasted {len(text):,} characters"
        number = 1
        placeholder = f"[{name}]"
        while self._texts.get(placeholder, text) != text:
            number += 1
            placeholder = f"[{name} #{number}]"
        self._texts[placeholder] = text
        return placeholder

    def expand(self, draft: str) -> str:
        """``draft`` with every placeholder replaced by its text; what a paste holds is not looked at."""
        if not self._texts:
            return draft
        pattern = "|".join(re.escape(placeholder) for placeholder in self._texts)
        return re.sub(pattern, lambda match: self._texts[match[0]], draft)

    def ending(self, text: str) -> str:
        """The placeholder at the end of ``text``; empty where there is none."""
        return next((placeholder for placeholder in self._texts if text.endswith(placeholder)), "")

    def clear(self) -> None:
        self._texts.clear()
