"""CommonMark with tables, strikethrough, bare links and maths, as a syntax tree. HTML stays text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from mdit_py_plugins.dollarmath import dollarmath_plugin

if TYPE_CHECKING:
    from markdown_it.rules_inline import StateInline

Node = SyntaxTreeNode
NESTING = 60
"""Quotes and lists in each other; what is nested more deeply is not parsed."""
_CLOSERS = {"(": r"\)", "[": r"\]"}


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("gfm-like", {"html": False, "maxNesting": NESTING})
    parser.use(dollarmath_plugin, allow_labels=False, allow_space=False, allow_digits=False)
    parser.inline.ruler.before("escape", "bracket_math", _bracket_math)
    return parser


def _bracket_math(state: StateInline, silent: bool) -> bool:
    """``\\(...\\)`` and ``\\[...\\]`` are maths: kept as written."""
    closer = _CLOSERS.get(state.src[state.pos + 1 : state.pos + 2]) if state.src[state.pos] == "\\" else None
    end = state.src.find(closer, state.pos + 2) if closer else -1
    if end < 0:
        return False
    if not silent:
        token = state.push("math_inline", "math", 0)
        token.content = state.src[state.pos : end + 2]
        token.markup = "\\"
    state.pos = end + 2
    return True


def parse(text: str) -> list[Node]:
    """The top-level blocks of ``text``; their ``map`` are line numbers in it."""
    return SyntaxTreeNode(_parser().parse(text)).children


def code_blocks(text: str) -> list[str]:
    """The code of every code block, nested ones too, in their order."""
    found: list[str] = []

    def walk(nodes: Sequence[Node]) -> None:
        for node in nodes:
            if node.type in ("fence", "code_block"):
                found.append(node.content)
            walk(node.children)

    walk(parse(text))
    return found
