"""All key bindings. Every one has an id, by which ``[keys]`` in the settings gives it other keys."""

from __future__ import annotations

from textual.binding import Binding

APP: list[Binding] = [
    Binding("ctrl+q", "app.quit", "Quit", id="quit", show=False, priority=True),
    Binding("ctrl+c,super+c", "app.interrupt", "Copy, clear, stop", id="interrupt", show=False, priority=True),
    Binding("f1", "app.help", "Help", id="help", priority=True),
    Binding("f2", "app.settings", "Settings", id="settings", priority=True),
    Binding("f3", "app.model", "Model", id="model", priority=True),
    Binding("f4", "app.strategy", "Strategy", id="strategy", priority=True),
    Binding("ctrl+n", "app.new", "New chat", id="new", priority=True),
    Binding("ctrl+p", "app.command_palette", "Commands", id="palette", show=False, priority=True),
    Binding("ctrl+r", "app.chats", "Chats", id="chats", show=False, priority=True),
    Binding("ctrl+e", "app.export", "Export the chat", id="export", show=False, priority=True),
    Binding("ctrl+l", "app.log", "Engine log", id="log", show=False, priority=True),
]
"""Work everywhere, those in NOT_OVER_DIALOGS aside."""

NOT_OVER_DIALOGS = frozenset({"settings", "model", "strategy", "new", "chats", "export", "command_palette"})
"""Actions of the app that wait until the open dialog is answered."""

CHAT: list[Binding] = [
    Binding("escape", "stop", "Stop", id="stop", show=False),
    Binding("ctrl+b", "memory", "Memory view", id="memory", priority=True),
    Binding("ctrl+t", "thinking", "Show thinking", id="thinking", show=False, priority=True),
    Binding("ctrl+g", "editor", "External editor", id="editor", show=False, priority=True),
    Binding("alt+up", "walk(-1)", "Message before", id="message.previous", show=False, priority=True),
    Binding("alt+down", "walk(1)", "Message after", id="message.next", show=False, priority=True),
]

DIALOG: list[Binding] = [
    Binding("escape", "cancel", "Close", id="dialog.close"),
]
"""What every dialog adds."""

PICKER: list[Binding] = [
    Binding("f5", "login", "Log in to the hub", id="picker.login"),
]
SWITCHER: list[Binding] = [
    Binding("p", "prefer", "Preference", id="switcher.prefer"),
    Binding("c", "context", "Context", id="switcher.context"),
    Binding("k", "kv", "KV cache", id="switcher.kv"),
    Binding("space", "more", "Read on", id="switcher.more"),
]
PROBLEM: list[Binding] = [
    Binding("enter", "cancel", "Close", id="problem.close", priority=True),
    Binding("r", "reload", "Reload", id="problem.reload"),
    Binding("f4", "strategy", "Another strategy", id="problem.strategy"),
    Binding("l", "log", "Log", id="problem.log"),
]
CHATS: list[Binding] = [
    Binding("ctrl+d", "delete", "Delete", id="chats.delete", priority=True),
    Binding("ctrl+z", "undo", "Undo the deletion", id="chats.undo"),
]
LOGIN: list[Binding] = [
    Binding("ctrl+o", "logout", "Log out", id="login.logout"),
]

Row = tuple[str, str, str]
"""Keys as they are written, what they do, and the binding's id where they can be given other ones."""

SECTIONS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    (
        "Write",
        (
            ("Enter", "send", ""),
            ("Shift+Enter", "new line, also Ctrl+J", ""),
            ("Esc", "stop the reply, load", "stop"),
            ("Ctrl+C", "copy, clear, stop", "interrupt"),
            ("Ctrl+G", "external editor", "editor"),
        ),
    ),
    (
        "Messages",
        (
            ("Alt+Up/Down", "walk through them", ""),
            ("y", "copy the message", "transcript.copy"),
            ("c", "copy next code block", "transcript.code"),
            ("e", "edit your message", "transcript.edit"),
            ("r", "answer again", "transcript.again"),
            ("Ctrl+T", "show the thinking", "thinking"),
        ),
    ),
    (
        "Screens",
        (
            ("F1", "this help", "help"),
            ("F2", "settings", "settings"),
            ("F3", "model", "model"),
            ("F4", "strategy", "strategy"),
            ("Ctrl+B", "memory view", "memory"),
            ("Ctrl+L", "engine log", "log"),
        ),
    ),
    (
        "Chats",
        (
            ("Ctrl+N", "new chat", "new"),
            ("Ctrl+R", "saved chats", "chats"),
            ("Ctrl+E", "export as Markdown", "export"),
            ("Ctrl+P", "all commands", "palette"),
            ("Ctrl+Q", "quit", "quit"),
        ),
    ),
)
"""The help screen's order and words, for its two columns."""


def all_bindings() -> list[Binding]:
    """Every binding that has an id, the widgets' included."""
    from llmchat.ui.widgets.composer import Composer
    from llmchat.ui.widgets.transcript_keys import BINDINGS as TRANSCRIPT

    composer = [binding for binding in Composer.BINDINGS if isinstance(binding, Binding)]
    return [*APP, *CHAT, *composer, *TRANSCRIPT, *DIALOG, *PICKER, *SWITCHER, *PROBLEM, *CHATS, *LOGIN]
