"""Messages of the whole app; a widget's own messages are nested in the widget."""

from __future__ import annotations

from textual.message import Message

from llmchat.session.state import SessionState


class StateChanged(Message):
    """The session has a new state. A newer one replaces an older one that nobody has drawn yet."""

    def __init__(self, state: SessionState) -> None:
        super().__init__()
        self.state = state

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, StateChanged)


class CommandRun(Message):
    """A command was chosen by name: from a dialog's hint, the composer or the palette."""

    def __init__(self, name: str, argument: str = "") -> None:
        super().__init__()
        self.name, self.argument = name, argument
