"""The subcommands: one file each. Nothing here imports textual or torch before the command is known."""

from __future__ import annotations

from collections.abc import Sequence

from llmchat.commands.options import parse


def run(argv: Sequence[str]) -> int:
    """Parse and run; returns the exit code. Raises LlmchatError, SystemExit after ``--help``."""
    options = parse(argv)
    match options.command:
        case "ask":
            from llmchat.commands import ask

            return ask.run(options)
        case "plan":
            from llmchat.commands import plan

            return plan.run(options)
        case "doctor":
            from llmchat.commands import doctor

            return doctor.run(options)
        case _:
            from llmchat.commands import chat

            return chat.run(options)
