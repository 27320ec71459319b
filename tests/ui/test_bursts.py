"""Keys that come in one burst, as from a paste by a terminal multiplexer, act in the order of typing."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import App
from textual.events import Key
from textual.widgets import Input

from llmchat.ui.screens.ask import AskScreen
from llmchat.ui.screens.chat import ChatScreen
from llmchat.ui.screens.load import LoadScreen
from llmchat.ui.widgets.composer import Composer

from . import states
from .apps import app, until

SIZE = (100, 30)


def burst(running: App[None], *keys: str) -> None:
    """Post all keys before the app takes the first; a text is typed letter by letter."""
    for key in keys:
        names: Sequence[str] = [key] if key in ("enter", "down", "up", "backspace", "ctrl+d", "ctrl+c") else key
        for name in names:
            running.post_message(Key(name, name if len(name) == 1 else None))


async def test_picker_filters_before_it_moves_and_opens() -> None:
    running, session, _ = app(states.idle())
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: running.screen.query("#models"))
        burst(running, "e", "down", "down", "enter")
        await until(pilot, lambda: "open" in session.names())
        assert session.calls[-1] == ("open", states.MODELS[3]), "of those with an e in the name, the third"


async def test_picker_opens_all_that_was_typed() -> None:
    running, session, _ = app(states.idle())
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: running.screen.query("#models"))
        burst(running, "org/nama", "backspace", "e", "enter")
        await until(pilot, lambda: ("open", "org/name") in session.calls)


async def test_login_sends_the_whole_token() -> None:
    running, session, _ = app(states.idle())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("f5")
        await until(pilot, lambda: running.screen.query("#token"))
        burst(running, "hf_abc", "enter")
        await until(pilot, lambda: ("login", "hf_abc") in session.calls)


async def test_a_question_takes_the_whole_answer() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        running.run_command("system")
        await until(pilot, lambda: isinstance(running.screen, AskScreen) and running.screen.query(Input))
        burst(running, "short", "enter")
        await until(pilot, lambda: ("set_system", "short") in session.calls)


async def test_chats_search_before_they_move_and_delete() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("ctrl+r")
        await until(pilot, lambda: running.screen.query("#chats"))
        burst(running, "l", "down", "ctrl+d", "ctrl+d")
        await until(pilot, lambda: "delete_chat" in session.names())
        assert ("delete_chat", "c1") in session.calls, "the second of those with an l in the title"


async def test_ctrl_c_clears_what_was_typed_just_before() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(running.screen, ChatScreen))
        burst(running, "draft", "ctrl+c", "new", "enter")
        await until(pilot, lambda: "send" in session.names())
        assert ("send", "new") in session.calls


async def test_a_message_waits_in_the_composer_while_a_reply_streams() -> None:
    running, session, _ = app(states.generating())
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(running.screen, ChatScreen))
        burst(running, "more", "enter")
        await until(pilot, lambda: running.chat.draft == "more")
        await pilot.pause()
        assert "send" not in session.names()
        session.push(states.ready())
        await until(pilot, lambda: not running.chat.query_one(Composer).held)
        burst(running, "enter")
        await until(pilot, lambda: ("send", "more") in session.calls)


async def test_commands_are_taken_while_a_reply_streams() -> None:
    running, session, _ = app(states.generating())
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(running.screen, ChatScreen))
        burst(running, "/retry", "enter", "/stop", "enter")
        await until(pilot, lambda: "stop" in session.names())
        assert "regenerate" not in session.names(), "the reply before is not finished"


async def test_the_next_message_can_be_written_while_the_model_loads() -> None:
    running, session, _ = app(states.loading())
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(running.screen, LoadScreen))
        burst(running, "hallo", "backspace", "enter")
        await until(pilot, lambda: running.chat.draft == "hall")
        await pilot.pause()
        assert "send" not in session.names()
        session.push(states.ready())
        await until(pilot, lambda: isinstance(running.screen, ChatScreen))
        burst(running, "o", "enter")
        await until(pilot, lambda: ("send", "hallo") in session.calls)
