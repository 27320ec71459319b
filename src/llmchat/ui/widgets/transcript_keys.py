"""Keys of the transcript and what an empty one says about keys."""

from __future__ import annotations

from textual.binding import Binding

BINDINGS = [
    Binding("alt+up", "walk(-1)", "Message before", id="transcript.previous", show=False),
    Binding("alt+down", "walk(1)", "Message after", id="transcript.next", show=False),
    Binding("y", "copy_message", "Copy the message", id="transcript.copy", show=False),
    Binding("c", "copy_code", "Copy the next code block", id="transcript.code", show=False),
    Binding("e", "edit_message", "Edit your message", id="transcript.edit", show=False),
    Binding("r", "regenerate", "Answer again", id="transcript.again", show=False),
    Binding("escape", "leave", "Leave the messages", id="transcript.leave", show=False),
]

ON_SELECTED = {
    "user": "y copy · c code · e edit · Esc",
    "assistant": "y copy · c code · r again · Esc",
    "system": "y copy · Esc",
}
"""Shown beside the role of the selected message."""

EMPTY = (
    ("Enter", "send"),
    ("Ctrl+J, Shift+Enter", "new line"),
    ("F4", "how the model is held in memory, and how fast"),
    ("Alt+Up", "walk through the messages: copy, edit, answer again"),
    ("F1", "all keys"),
)
