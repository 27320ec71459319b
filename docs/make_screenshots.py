"""Take the pictures of the README from the real app on the fake engine's machine of four GPUs.

python docs/make_screenshots.py            writes docs/images/*.svg
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from llmchat.commands.options import DEFAULT_MACHINE
from llmchat.session.controller import Session
from llmchat.session.options import SessionOptions
from llmchat.session.saved.settings import Settings
from llmchat.session.state import Phase, SessionState
from llmchat.ui.app import LlmchatApp

IMAGES = Path(__file__).with_name("images")
SIZE = (140, 38)
QUESTION = "How fast will it answer, and why?"
MODEL = "meta-llama/Llama-3.1-70B-Instruct"
"""The fake engine knows its shape; nothing is asked of the hub."""
WEB_FONT = re.compile(r"@font-face\s*\{.*?\}", re.DOTALL)
"""Textual's pictures name a font on the web, which a README's picture cannot load anyway."""


async def until(session: Session, condition: Callable[[SessionState], bool], seconds: float = 60.0) -> None:
    """Wait for a state. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        async for state in session.changes():
            if condition(state):
                return


async def main() -> None:
    session = Session(SessionOptions(fake=DEFAULT_MACHINE, keep=False))
    await session.start()
    try:
        app = LlmchatApp(session, session.settings or Settings(), MODEL)
        async with app.run_test(size=SIZE) as pilot:
            await until(session, lambda state: state.phase is Phase.READY)
            await pilot.pause()
            await pilot.press(*QUESTION, "enter")
            await until(session, lambda state: state.phase is Phase.READY and state.context_used > 0)
            while "first&#160;token" not in app.export_screenshot():
                await pilot.pause(0.05)
            save(app, "chat")
            await pilot.press("f4")
            await pilot.pause()
            save(app, "strategies")
    finally:
        await session.close()


def save(app: LlmchatApp, name: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / f"{name}.svg").write_text(WEB_FONT.sub("", app.export_screenshot(title="llmchat")), encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ["LLMCHAT_HOME"] = home
        asyncio.run(main())
