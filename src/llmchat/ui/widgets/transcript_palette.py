"""The styles of the transcript, taken from its component classes: every theme gives its own colours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from rich.style import Style

PREFIX = "transcript--"
BACKED = frozenset({"code", "code_label", "inline_code"})
"""Those that have a background of their own; the others show the widget's."""
CODE_WORDS = ("keyword", "string", "number", "comment", "function", "type")
"""Kinds of syntax; they stand on the background of ``code``."""


@dataclass(frozen=True)
class Palette:
    """One style for each part of a transcript."""

    text: Style
    muted: Style
    warning: Style
    error: Style
    you: Style
    model: Style
    thinking: Style
    border: Style
    selected: Style
    heading: Style
    link: Style
    quote: Style
    math: Style
    code: Style
    code_label: Style
    inline_code: Style
    keyword: Style
    string: Style
    number: Style
    comment: Style
    function: Style
    type: Style

    @classmethod
    def read(cls, style_of: Callable[[str], Style]) -> Palette:
        """``style_of`` gives the style of a component class, with its background."""
        styles = {}
        for field in fields(cls):
            style = style_of(PREFIX + field.name.replace("_", "-"))
            styles[field.name] = style if field.name in BACKED else _foreground(style)
        for name in CODE_WORDS:
            styles[name] = styles["code"] + styles[name]
        return cls(**styles)


COMPONENTS = frozenset(PREFIX + field.name.replace("_", "-") for field in fields(Palette))


def _foreground(style: Style) -> Style:
    return Style(
        color=style.color,
        bold=style.bold,
        dim=style.dim,
        italic=style.italic,
        underline=style.underline,
        reverse=style.reverse,
        strike=style.strike,
    )
