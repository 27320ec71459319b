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

CSS = """
Transcript {
    overflow-x: hidden;
    overflow-y: auto;
    scrollbar-size-vertical: 1;
    scrollbar-gutter: stable;
    color: $foreground;
    background: $background;

    & > .transcript--muted { color: $muted; }
    & > .transcript--warning { color: $warning; }
    & > .transcript--error { color: $error; text-style: bold; }
    & > .transcript--you { color: $primary; text-style: bold; }
    & > .transcript--model { color: $accent; text-style: bold; }
    & > .transcript--thinking { color: $muted; text-style: italic; }
    & > .transcript--border { color: $warning; }
    & > .transcript--selected { color: $accent; text-style: bold; }
    & > .transcript--heading { text-style: bold; }
    & > .transcript--link { color: $primary; text-style: underline; }
    & > .transcript--quote { text-style: italic; }
    & > .transcript--math { color: $secondary; }
    & > .transcript--code { background: $panel; }
    & > .transcript--code-label { background: $panel; color: $muted; }
    & > .transcript--inline-code { background: $panel; }
    & > .transcript--keyword { color: $primary; }
    & > .transcript--string { color: $success; }
    & > .transcript--number { color: $warning; }
    & > .transcript--comment { color: $muted; text-style: italic; }
    & > .transcript--function { color: $secondary; }
    & > .transcript--type { color: $accent; }
}
"""


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
