"""One line to write in, as every dialog has it."""

from __future__ import annotations

from textual.reactive import reactive
from textual.widgets import Input


class Field(Input):
    """An Input whose cursor stands still: nothing on screen moves while nothing happens."""

    cursor_blink: reactive[bool] = reactive(False, init=False)
