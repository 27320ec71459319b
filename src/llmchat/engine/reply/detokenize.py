"""Tokens to text as they come: whole characters only, spaces where the tokenizer would put them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

CONTEXT = 6
"""Tokens of the text before that decide about the first token's leading space."""
HALF = "\ufffd"
"""What decoders give for bytes that are no character (yet)."""
PATIENCE = 16
"""Tokens to wait for the rest of a character; then the bytes are what they are. A character has at most 4."""


class Detokenizer:
    """Decodes with the tokenizer's own ``decode`` and shows the difference: right for byte-level tokenizers, for
    sentencepiece with byte fallback, and for those without a fast backend.

    Only the tokens since the last text but one are decoded anew, so a token costs the same however long the text.
    """

    def __init__(self, tokenizer: Any, *, before: Sequence[int] = (), keep: Collection[str] = ()) -> None:
        """``before``: the text goes on after these tokens. ``keep``: special tokens to pass on as text."""
        self._tokenizer = tokenizer
        special = set(tokenizer.all_special_ids)
        self._special = {token: _kept(tokenizer, token, keep) for token in special}
        self._window = [token for token in before[-CONTEXT:] if token not in special]
        self._read = len(self._window)
        """So many tokens of the window are shown already."""

    def push(self, token: int) -> str:
        """The text that ``token`` completes; often empty inside an emoji."""
        if token in self._special:
            return self.flush() + self._special[token]
        self._window.append(token)
        text, shown = self._decode(self._window), self._decode(self._window[: self._read])
        waiting = len(self._window) - self._read
        if len(text) <= len(shown) or (text.endswith(HALF) and waiting < PATIENCE):
            return ""
        self._window = self._window[self._read :]
        self._read = len(self._window)
        return text[len(shown) :]

    def flush(self) -> str:
        """What is left, without a half character at its end."""
        text, shown = self._decode(self._window), self._decode(self._window[: self._read])
        self._window, self._read = [], 0
        return text[len(shown) :].rstrip(HALF)

    def _decode(self, tokens: list[int]) -> str:
        if not tokens:
            return ""
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True))


def _kept(tokenizer: Any, token: int, keep: Collection[str]) -> str:
    text = str(tokenizer.convert_ids_to_tokens(token))
    return text if text in keep else ""
