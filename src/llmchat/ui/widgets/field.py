"""One line to write in, as every dialog has it."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.dom import DOMNode
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Input


class Field(Input, inherit_bindings=False):
    """An Input whose cursor stands still, and whose keys act in the order of typing, also in one burst."""

    BINDINGS: ClassVar[list[BindingType]] = [*Input.BINDINGS]
    """Without those of any widget, which scroll: a field has one line, and the arrows are its screen's."""
    cursor_blink: reactive[bool] = reactive(False, init=False)

    class Bound(Message):
        """A key that is bound above the field, in its turn behind the changes of the text: the screen runs it."""

        def __init__(self, action: str, node: DOMNode) -> None:
            super().__init__()
            self.action, self.node = action, node

        async def run(self) -> None:
            self.stop()
            await self.node.app.run_action(self.action, self.node)

    async def _on_key(self, event: events.Key) -> None:
        """Run the field's own bindings here, and send the others after the changes that the screen has yet to
        hear of: an ordinary binding overtakes these, one of priority even the letters still queued."""
        active = None if event.is_printable else self.screen.active_bindings.get(event.key)
        if active is None:
            return
        event.stop()
        event.prevent_default()
        if active.node is self:
            await self.app.run_action(active.binding.action, self)
        else:
            self.post_message(self.Bound(active.binding.action, active.node))

    def in_turn(self, action: str, node: DOMNode) -> None:
        """Run an action behind the keys and changes that came before; for a binding of priority."""
        self.call_later(self.post_message, self.Bound(action, node))
