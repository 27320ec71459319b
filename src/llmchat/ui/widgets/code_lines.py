"""Code as highlighted lines: whole, or growing line by line with what is settled never looked at again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.style import Style

from llmchat.ui.widgets.transcript_palette import Palette
from llmchat.ui.widgets.wrapping import Line, fit, fold, pad

if TYPE_CHECKING:
    from pygments.lexer import Lexer

CHUNK = 24
"""Lines of growing code that are lexed again at least when a line comes."""
PLAIN_BEYOND = 400
"""Lines without a place to start afresh, as in an endless string: then a cut is made anyway."""
LONG_LINE = 2_000
LONG_CODE = 400_000
"""Characters from which code is shown without highlighting: lexers are regular expressions and can be slow."""

Kinds = list[tuple[str, str]]
"""One line of code: (kind, text) with a kind of ``CODE_WORDS``, or empty for plain."""


@lru_cache(maxsize=32)
def _lexer(language: str) -> Lexer | None:
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False) if language else None
    except ClassNotFound:
        return None


@lru_cache(maxsize=512)
def _kind(token: Any) -> str:
    """The style of a pygments token type."""
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    for kind, types in (
        ("comment", (Comment,)),
        ("string", (String,)),
        ("number", (Number, Keyword.Constant)),
        ("type", (Keyword.Type, Name.Class, Name.Exception)),
        ("function", (Name.Function, Name.Decorator, Name.Builtin, Name.Tag)),
        ("keyword", (Keyword, Operator.Word)),
    ):
        if any(token in one for one in types):
            return kind
    return ""


def _lex(code: str, language: str) -> list[Kinds]:
    """``code`` by lines. Never fails: a lexer that does gives plain lines."""
    lexer = _lexer(language)
    if lexer is None or len(code) > LONG_CODE or any(len(line) > LONG_LINE for line in code.split("\n")):
        return [[("", line)] for line in code.split("\n")]
    lines: list[Kinds] = [[]]
    for token, text in lexer.get_tokens(code):
        kind = _kind(token)
        first, *rest = text.split("\n")
        if first:
            lines[-1].append((kind, first))
        lines += [[(kind, part)] if part else [] for part in rest]
    return lines


@lru_cache(maxsize=64)
def highlighted(code: str, language: str) -> list[Kinds]:
    """As ``_lex``, kept for the blocks that are on screen."""
    return _lex(code, language)


class GrowingCode:
    """Code of which more lines come. ``add`` returns the lines that are settled by now; ``open`` is the rest."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._lines: list[str] = []
        self._try_at = 2 * CHUNK
        self.open: list[Kinds] = []

    def add(self, lines: Sequence[str], partial: str | None) -> list[Kinds]:
        """``lines`` are complete; ``partial`` is the beginning of the next, None where there is none."""
        self._lines += lines
        settled: list[Kinds] = []
        while len(self._lines) > 4 * CHUNK:
            head = self._lines[: 4 * CHUNK]
            ready = self._settle(head, _lex("\n".join(head), self._language))
            if not ready:
                break
            settled += ready
        shown = self._lines if partial is None else [*self._lines, partial]
        lexed = _lex("\n".join(shown), self._language) if shown else []
        if len(self._lines) >= self._try_at:
            ready = self._settle(self._lines, lexed)
            settled += ready
            lexed = lexed[len(ready) :]
        self.open = lexed
        return settled

    def _settle(self, lines: list[str], lexed: list[Kinds]) -> list[Kinds]:
        """Give away the lines before a place from which a fresh start of the lexer gives the same as going on."""
        for cut in _fresh_starts(lines):
            if _lex("\n".join(lines[cut:]), self._language)[: len(lines) - cut] == lexed[cut : len(lines)]:
                return self._give(lexed, cut)
        if len(self._lines) > PLAIN_BEYOND:
            return self._give(lexed, len(lines) - CHUNK)
        self._try_at = len(self._lines) + CHUNK
        return []

    def _give(self, lexed: list[Kinds], count: int) -> list[Kinds]:
        del self._lines[:count]
        self._try_at = 2 * CHUNK
        return lexed[:count]


def _fresh_starts(lines: Sequence[str]) -> list[int]:
    """Up to two line numbers at which code probably starts something new: the least indented of the last lines."""
    low = max(1, len(lines) // 2)
    numbers = range(low, len(lines) - 4)
    filled = [number for number in numbers if lines[number].strip()]
    by_indent = sorted(filled, key=lambda n: (len(lines[n]) - len(lines[n].lstrip()), -n))
    return by_indent[:2]


def code_block(code: str, language: str, palette: Palette, width: int) -> list[Line]:
    """A finished block: its label and its lines."""
    lines = highlighted(code.rstrip("\n"), language.lower())
    return [*label(language, palette, width), *code_rows(lines, palette, width)]


def label(language: str, palette: Palette, width: int) -> list[Line]:
    """The line that names the language; none where the model named none."""
    if not language:
        return []
    return [pad([Segment(" " + fit(language, width - 2), palette.code_label)], width, palette.code_label)]


def code_rows(lines: Sequence[Kinds], palette: Palette, width: int) -> list[Line]:
    """Lines on the code's background; a long one goes on below, indented as it is."""
    styles: dict[str, Style] = {"": palette.code}
    rows: list[Line] = []
    edge = Segment(" ", palette.code)
    room = max(2, width - 2)
    for kinds in lines:
        line = [Segment(text, styles.get(kind) or getattr(palette, kind)) for kind, text in kinds]
        first, *rest = fold(line, room)
        rows.append(pad([edge, *first], width, palette.code))
        if rest:
            indent = _indent("".join(text for _, text in kinds), room)
            flat = [segment for part in rest for segment in part]
            rows += [
                pad([edge, Segment(indent, palette.code), *part], width, palette.code)
                for part in fold(flat, room - len(indent))
            ]
    return rows


def _indent(text: str, room: int) -> str:
    """Of the lines that go on: the first line's and two more, at most a third of the room."""
    own = sum(1 for _ in takewhile(lambda character: character == " ", text))
    return " " * min(own + 2, room // 3)
