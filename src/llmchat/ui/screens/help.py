"""Keys in two columns, the commands, and the ids by which keys can be changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from llmchat.session.controller import Session
from llmchat.ui.commands import COMMANDS
from llmchat.ui.keys import SECTIONS, Row, all_bindings
from llmchat.ui.screens.base import Dialog
from llmchat.ui.widgets.memory_text import MUTED

KEY_WIDTH = 13
NAME_WIDTH = 25
HEADING = "bold $primary"


class HelpScreen(Dialog[None]):
    """Keys that the person changed show as they are now."""

    CSS_PATH = "help.tcss"
    HEADING = "Help"
    HINTS = (("↑↓", "scroll"), ("Esc", "close"))

    def __init__(
        self, session: Session, here: Sequence[Row] = (), keymap: Mapping[str, str] | None = None
    ) -> None:
        """``here``: what the focused widget and its screen add."""
        super().__init__(session)
        self._here, self._keymap = tuple(here), keymap or {}

    def body(self) -> Iterable[Widget]:
        half = len(SECTIONS) // 2
        columns = Horizontal(
            Static(self._sections(SECTIONS[:half]), classes="column"),
            Static(self._sections(SECTIONS[half:]), classes="column"),
            id="columns",
        )
        here = Static(self._sections((("Here", self._here),)), id="here")
        here.display = bool(self._here)
        rest = Static(Content("\n\n").join([_commands(), self._ids()]))
        yield VerticalScroll(here, columns, rest, id="all")

    def on_mount(self) -> None:
        self.query_one("#all").focus()

    def _sections(self, sections: Iterable[tuple[str, tuple[Row, ...]]]) -> Content:
        blocks = []
        for heading, rows in sections:
            lines = [Content.styled(heading, HEADING)]
            for key, what, name in rows:
                shown = self._keymap.get(name, key)
                lines.append(Content.assemble(shown.ljust(KEY_WIDTH), (what, MUTED)))
            blocks.append(Content("\n").join(lines))
        return Content("\n\n").join(blocks)

    def _ids(self) -> Content:
        lines = [Content.styled("Names of the keys, to change them under [keys] in the settings file", HEADING)]
        for binding in all_bindings():
            key = self._keymap.get(binding.id or "", binding.key)
            lines.append(
                Content.assemble((binding.id or "").ljust(NAME_WIDTH), f"{key}  ", (binding.description, MUTED))
            )
        return Content("\n").join(lines)


def _commands() -> Content:
    lines = [Content.styled("Commands, typed in the composer or found with Ctrl+P", HEADING)]
    for command in COMMANDS:
        typed = f"/{command.name}" + (f" [{command.argument}]" if command.argument else "")
        lines.append(Content.assemble(typed.ljust(NAME_WIDTH), (command.help, MUTED)))
    return Content("\n").join(lines)
