"""What was sent before, walked through by the arrow keys; the draft is kept meanwhile."""

from __future__ import annotations

KEPT = 200


class History:
    def __init__(self) -> None:
        self._sent: list[str] = []
        self._at: int | None = None
        self._draft = ""

    def add(self, text: str) -> None:
        """Sent just now. The same text twice in a row is kept once."""
        if text and (not self._sent or self._sent[-1] != text):
            self._sent = [*self._sent, text][-KEPT:]
        self._at = None

    def older(self, draft: str) -> str | None:
        """The text before; None at the oldest. ``draft`` is what stands there now."""
        if self._at is None:
            self._draft = draft
        at = len(self._sent) if self._at is None else self._at
        if at == 0:
            return None
        self._at = at - 1
        return self._sent[self._at]

    def newer(self) -> str | None:
        """The text after, at last the draft; None when that is there already."""
        if self._at is None:
            return None
        self._at += 1
        if self._at == len(self._sent):
            self._at = None
            return self._draft
        return self._sent[self._at]
