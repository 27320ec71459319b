"""Every key of the interface, pressed."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.command import CommandPalette
from textual.screen import Screen

from llmchat.ui import keys
from llmchat.ui.screens.chat import ChatScreen
from llmchat.ui.screens.chats import ChatsScreen
from llmchat.ui.screens.help import HelpScreen
from llmchat.ui.screens.load import LoadScreen
from llmchat.ui.screens.log import LogScreen
from llmchat.ui.screens.login import LoginScreen
from llmchat.ui.screens.picker import PickerScreen
from llmchat.ui.screens.settings import SettingsScreen
from llmchat.ui.screens.switcher import SwitcherScreen
from llmchat.ui.screens.too_small import TooSmallScreen
from llmchat.ui.widgets.memory_line import MemoryLine
from llmchat.ui.widgets.memory_panel import MemoryPanel
from llmchat.ui.widgets.memory_rows import MemoryRows

from . import states
from .apps import app, until

SIZE = (100, 30)


@pytest.mark.parametrize(
    ("key", "screen"),
    [
        ("f1", HelpScreen),
        ("f2", SettingsScreen),
        ("f3", PickerScreen),
        ("f4", SwitcherScreen),
        ("ctrl+r", ChatsScreen),
        ("ctrl+l", LogScreen),
        ("ctrl+p", CommandPalette),
    ],
)
async def test_a_key_opens_its_screen_and_escape_closes_it(key: str, screen: type[Screen[object]]) -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press(key)
        await until(pilot, lambda: isinstance(running.screen, screen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(running.screen, ChatScreen))
        assert "stop" not in session.names()


@pytest.mark.parametrize(
    ("key", "call"),
    [("ctrl+n", ("new_chat",)), ("escape", ("stop",)), ("ctrl+e", ("export", None))],
)
async def test_a_key_reaches_the_session(key: str, call: tuple[object, ...]) -> None:
    running, session, _ = app(states.generating())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press(key)
        await until(pilot, lambda: call in session.calls)


async def test_ctrl_q_quits_at_once_also_over_a_dialog() -> None:
    running, _, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("f4", "ctrl+q")
        await until(pilot, lambda: running._exit)


async def test_ctrl_b_goes_full_compact_hidden() -> None:
    running, _, _ = app(states.ready())
    async with running.run_test(size=(120, 30)) as pilot:

        def forms() -> list[bool]:
            return [running.screen.query_one(kind).display for kind in (MemoryPanel, MemoryRows, MemoryLine)]

        await until(pilot, lambda: forms() == [True, False, False])
        await pilot.press("ctrl+b")
        await until(pilot, lambda: forms() == [False, True, False])
        assert running.settings.panel == "compact"
        await pilot.press("ctrl+b")
        await until(pilot, lambda: forms() == [False, False, False])


async def test_the_form_follows_the_width() -> None:
    running, _, _ = app(states.ready())
    async with running.run_test(size=(120, 30)) as pilot:
        for width, kind in ((100, MemoryRows), (70, MemoryLine), (130, MemoryPanel)):
            await pilot.resize_terminal(width, 30)
            await until(pilot, lambda kind=kind: running.screen.query_one(kind).display)


# --- Ctrl+C ------------------------------------------------------------------------------------------------------
async def test_ctrl_c_clears_the_draft_then_asks_then_quits() -> None:
    running, _, clock = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        running.chat.draft = "half a thought"
        await pilot.press("ctrl+c")
        await until(pilot, lambda: running.chat.draft == "")
        await pilot.press("ctrl+c")
        assert not running._exit
        clock.now += 3
        await pilot.press("ctrl+c")
        assert not running._exit, "too late to be the second press"
        clock.now += 1
        await pilot.press("ctrl+c")
        await until(pilot, lambda: running._exit)


async def test_ctrl_c_stops_a_reply_and_does_not_count() -> None:
    running, session, _ = app(states.generating())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("ctrl+c", "ctrl+c", "ctrl+c")
        assert session.names().count("stop") == 3
        assert not running._exit


async def test_ctrl_c_copies_a_selection_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    running, session, _ = app(states.generating())
    async with running.run_test(size=SIZE) as pilot:
        running.chat.draft = "half a thought"
        running.chat.query_one("Composer").select_all()
        await pilot.press("ctrl+c")
        await until(pilot, lambda: running.clipboard == "half a thought")
        assert running.chat.draft == "half a thought"
        assert "stop" not in session.names()


# --- what the state opens ----------------------------------------------------------------------------------------
async def test_without_a_model_the_picker_is_first() -> None:
    running, session, _ = app(states.idle())
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(running.screen, PickerScreen))
        await pilot.press("escape")
        assert isinstance(running.screen, PickerScreen), "there is nothing to go back to"
        await pilot.press("down", "enter")
        await until(pilot, lambda: ("open", states.LLAMA) in session.calls)


async def test_a_named_model_is_opened_at_once() -> None:
    running, session, _ = app(states.idle(), model="org/model")
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: ("open", "org/model") in session.calls)
        assert isinstance(running.screen, ChatScreen)


async def test_the_load_screen_comes_and_goes_with_the_phase() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        session.push(states.loading())
        await until(pilot, lambda: isinstance(running.screen, LoadScreen))
        await pilot.press("escape")
        await until(pilot, lambda: "stop" in session.names())
        session.push(states.ready())
        await until(pilot, lambda: isinstance(running.screen, ChatScreen))


async def test_a_load_that_ends_under_a_dialog_leaves_nothing_behind() -> None:
    running, session, _ = app(states.loading())
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(running.screen, LoadScreen))
        running.action_help()
        await until(pilot, lambda: isinstance(running.screen, HelpScreen))
        session.push(states.ready())
        await pilot.pause()
        assert isinstance(running.screen, HelpScreen)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(running.screen, ChatScreen))


async def test_an_aborted_first_load_shows_the_picker_again() -> None:
    running, session, _ = app(states.loading())
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(running.screen, LoadScreen))
        session.push(states.idle())
        await until(pilot, lambda: isinstance(running.screen, PickerScreen))


async def test_text_given_back_returns_to_the_composer() -> None:
    from msgspec.structs import replace

    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        session.push(replace(states.ready(), draft="please answer"))
        await until(pilot, lambda: running.chat.draft == "please answer")
        assert session.state.draft == ""


# --- too small ---------------------------------------------------------------------------------------------------
async def test_a_small_terminal_says_so_and_recovers() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        running.chat.draft = "kept"
        await pilot.resize_terminal(50, 10)
        await until(pilot, lambda: isinstance(running.screen, TooSmallScreen))
        session.push(states.failed())
        await pilot.pause()
        assert isinstance(running.screen, TooSmallScreen), "no dialog where it cannot be read"
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: running.screen.__class__.__name__ == "ProblemScreen")
        assert running.chat.draft == "kept"


# --- remapping ---------------------------------------------------------------------------------------------------
async def test_a_key_of_the_settings_replaces_ours() -> None:
    running, _, _ = app(states.ready(), keys={"strategy": "ctrl+s"})
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("f4")
        assert isinstance(running.screen, ChatScreen)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(running.screen, SwitcherScreen))


def test_all_bindings_have_an_id_and_no_id_has_two_meanings() -> None:
    actions: dict[str, str] = {}
    for binding in keys.all_bindings():
        assert binding.id
        assert actions.setdefault(binding.id, binding.action) == binding.action


def test_the_help_names_only_bindings_that_are() -> None:
    known = {binding.id for binding in keys.all_bindings()}
    assert {name for _, rows in keys.SECTIONS for _, _, name in rows if name} <= known


async def test_the_help_shows_changed_keys() -> None:
    running, _, _ = app(states.ready(), keys={"strategy": "ctrl+s"})
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(running.screen, HelpScreen))
        shown = "\n".join(strip.text for strip in running.screen._compositor.render_strips())
        assert "ctrl+s       strategy" in shown
        assert "F4" not in shown


async def test_the_editor_gives_the_draft_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nprintf " and more\\n" >> "$1"\n')
    script.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(script))
    from llmchat.ui.editor import edit

    assert edit("half a thought") == "half a thought and more"


async def test_an_editor_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from llmchat.errors import UsageError
    from llmchat.ui.editor import edit

    monkeypatch.setenv("VISUAL", "/nowhere/editor")
    with pytest.raises(UsageError, match="cannot be started"):
        edit("x")
    monkeypatch.setenv("VISUAL", "/bin/false")
    with pytest.raises(UsageError, match="status 1"):
        edit("x")


async def test_login_from_the_picker() -> None:
    running, session, _ = app(states.idle())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(running.screen, LoginScreen))
        await pilot.press(*"hf_secret", "enter")
        await until(pilot, lambda: ("login", "hf_secret") in session.calls)
