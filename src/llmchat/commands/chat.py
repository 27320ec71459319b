"""``llmchat [MODEL]``: the chat on screen."""

from __future__ import annotations

import asyncio
import sys

from llmchat.commands.options import Options
from llmchat.commands.running import running, session_options
from llmchat.errors import LlmchatError, UsageError


def run(options: Options) -> int:
    """Raises UsageError where there is no terminal, or where the settings cannot be read."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "Not a terminal",
            "llmchat draws on a terminal, and standard input or output is not one.",
            'For scripts: llmchat ask MODEL "prompt".',
        )
    return asyncio.run(_chat(options))


async def _chat(options: Options) -> int:
    async with running(session_options(options)) as session:
        from llmchat.ui.app import LlmchatApp  # after the engine is spawned: both import at the same time

        if session.settings is None:
            assert session.state.problem is not None
            raise LlmchatError.from_problem(session.state.problem)
        app = LlmchatApp(session, session.settings, options.model)
        await app.run_async()
        return app.return_code or 0
