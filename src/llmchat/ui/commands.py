"""What can be asked for by name: one list for the palette (Ctrl+P) and for ``/commands`` in the composer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from llmchat.ui.messages import CommandRun


@dataclass(frozen=True)
class Command:
    name: str
    """As typed after the slash."""
    title: str
    help: str
    argument: str = ""
    """What may follow, in words; empty: nothing."""
    keys: str = ""


COMMANDS: tuple[Command, ...] = (
    Command("model", "Choose a model", "From this machine or the hub", "id or folder", "F3"),
    Command("strategy", "Switch the strategy", "How the model is held in memory", "", "F4"),
    Command("new", "New chat", "The old one is kept", "", "Ctrl+N"),
    Command("chats", "Saved chats", "Find, resume or delete one", "", "Ctrl+R"),
    Command("retry", "Answer again", "The last message gets a new reply"),
    Command("reload", "Load the model again", "As it was, after the engine ended"),
    Command("stop", "Stop", "The reply, else the load or download", "", "Esc"),
    Command("system", "System prompt", "What the model is told before the chat", "text"),
    Command("export", "Export the chat", "As Markdown, with model, strategy and speed", "file", "Ctrl+E"),
    Command("copy", "Copy the last reply", "To the clipboard"),
    Command("memory", "Memory view", "Full, compact, hidden", "", "Ctrl+B"),
    Command("thinking", "Show or hide thinking", "Of models that reason first", "", "Ctrl+T"),
    Command("editor", "External editor", "Write the message in $EDITOR", "", "Ctrl+G"),
    Command("settings", "Settings", "Theme, sampling, system prompt, preference", "", "F2"),
    Command("theme", "Theme", "Colours of the screen", "name"),
    Command("login", "Hugging Face login", "For gated and private models"),
    Command("log", "Engine log", "What the engine and its libraries said", "", "Ctrl+L"),
    Command("help", "Help", "Keys and commands", "", "F1"),
    Command("quit", "Quit", "The chat is saved", "", "Ctrl+Q"),
)

BY_NAME = {command.name: command for command in COMMANDS}


class LlmchatCommands(Provider):
    """The palette's source."""

    async def discover(self) -> Hits:
        for command in COMMANDS:
            yield DiscoveryHit(command.title, self._runner(command), help=_help(command))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in COMMANDS:
            score = max(matcher.match(command.title), matcher.match(command.name))
            if score > 0:
                yield Hit(score, matcher.highlight(command.title), self._runner(command), help=_help(command))

    def _runner(self, command: Command) -> Callable[[], object]:
        return partial(self.app.post_message, CommandRun(command.name))


def _help(command: Command) -> str:
    return f"{command.help}  /{command.name}" + (f"  {command.keys}" if command.keys else "")
