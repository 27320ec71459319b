"""Keys, in two columns, and the commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from llmchat.session.controller import Session
from llmchat.ui.commands import COMMANDS
from llmchat.ui.keys import SECTIONS
from llmchat.ui.screens.base import Dialog
from llmchat.ui.widgets.memory_text import MUTED

KEY_WIDTH = 13


class HelpScreen(Dialog[None]):
    """``here``: key and word of what the focused widget and its screen add."""

    CSS_PATH = "help.tcss"
    HEADING = "Help"
    HINTS = (("↑↓", "scroll"), ("Esc", "close"))

    def __init__(self, session: Session, here: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(session)
        self._here = tuple(here)

    def body(self) -> Iterable[Widget]:
        half = len(SECTIONS) // 2
        columns = Horizontal(
            Static(_sections(SECTIONS[:half]), classes="column"),
            Static(_sections(SECTIONS[half:]), classes="column"),
            id="columns",
        )
        here = Static(_sections((("Here", self._here),)), id="here")
        here.display = bool(self._here)
        yield VerticalScroll(here, columns, Static(_commands(), id="commands"), id="all")

    def on_mount(self) -> None:
        self.query_one("#all").focus()

    def action_help(self) -> None:
        self.dismiss(None)


def _sections(sections: Iterable[tuple[str, tuple[tuple[str, str], ...]]]) -> Content:
    lines: list[Content] = []
    for heading, rows in sections:
        lines += (
            [Content(""), Content.styled(heading, "bold $primary")]
            if lines
            else [Content.styled(heading, "bold $primary")]
        )
        lines += [Content.assemble(key.ljust(KEY_WIDTH), (what, MUTED)) for key, what in rows]
    return Content("\n").join(lines)


def _commands() -> Content:
    lines = [Content.styled("Commands, typed in the composer or found with Ctrl+P", "bold $primary")]
    for command in COMMANDS:
        typed = f"/{command.name}" + (f" [{command.argument}]" if command.argument else "")
        lines.append(Content.assemble(typed.ljust(25), (command.help, MUTED)))
    return Content("\n").join(lines)
