"""What the screens do with what the person chooses."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.widgets import DataTable, Input, OptionList, Select, Static

from llmchat.errors import AccessError
from llmchat.session.state import Phase
from llmchat.ui.commands import COMMANDS
from llmchat.ui.messages import CommandRun
from llmchat.ui.screens.chat import ChatScreen
from llmchat.ui.screens.load import LoadScreen
from llmchat.ui.screens.log import LogScreen
from llmchat.ui.screens.picker import PickerScreen
from llmchat.ui.screens.problem import ProblemScreen
from llmchat.ui.screens.settings import SettingsScreen
from llmchat.ui.screens.switcher import SwitcherScreen
from llmchat.ui.screens.theme import ThemeScreen
from llmchat.ui.widgets.composer import Composer
from llmchat.ui.widgets.plan_view import PlanView
from llmchat.ui.widgets.transcript import Transcript

from . import states
from .apps import app, until

SIZE = (100, 30)


# --- problem -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("key", "calls", "screen"),
    [
        ("enter", ["dismiss"], ChatScreen),
        ("escape", ["dismiss"], ChatScreen),
        ("r", ["dismiss", "reload"], ChatScreen),
        ("f4", ["dismiss", "replan"], SwitcherScreen),
        ("l", ["dismiss"], LogScreen),
    ],
)
async def test_the_keys_of_the_problem(key: str, calls: list[str], screen: type[object]) -> None:
    running, session, _ = app(states.failed())
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(running.screen, ProblemScreen))
        await pilot.press(key)
        await until(pilot, lambda: isinstance(running.screen, screen))
        assert session.names() == calls


async def test_reload_is_not_offered_where_it_makes_no_sense() -> None:
    problem = replace(states.OUT_OF_MEMORY, kind="ModelError")
    running, session, _ = app(replace(states.idle(), problem=problem))
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(running.screen, ProblemScreen))
        await pilot.press("r", "f4")
        assert isinstance(running.screen, ProblemScreen)
        assert session.names() == []


async def test_after_a_model_that_could_not_be_opened_comes_the_picker() -> None:
    state = replace(states.idle(), phase=Phase.FAILED, problem=replace(states.OUT_OF_MEMORY, kind="ModelError"))
    running, _, _ = app(state, model="org/typo")
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(running.screen, ProblemScreen))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(running.screen, PickerScreen))


async def test_square_brackets_of_a_message_are_shown() -> None:
    problem = replace(states.OUT_OF_MEMORY, title="[b]Odd", message="expected [/bold] in [red]file[/red]")
    running, _, _ = app(replace(states.ready(), problem=problem))
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(running.screen, ProblemScreen))
        assert str(running.screen.query_one("#message", Static).render()) == problem.message
        assert "[b]Odd" in "".join(strip.text for strip in running.screen._compositor.render_strips())


# --- picker ------------------------------------------------------------------------------------------------------
async def test_typing_filters_and_an_unknown_id_can_be_opened() -> None:
    running, session, _ = app(states.idle())
    async with running.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: isinstance(running.screen, PickerScreen))
        table = running.screen.query_one(DataTable)
        await pilot.press(*"gemma")
        await until(pilot, lambda: table.row_count == 1)
        await pilot.press("escape")
        await until(pilot, lambda: table.row_count == len(states.MODELS))
        await pilot.press(*"org/new-model", "enter")
        await until(pilot, lambda: ("open", "org/new-model") in session.calls)


# --- login -------------------------------------------------------------------------------------------------------
async def test_a_refused_token_is_told_in_the_dialog() -> None:
    running, session, _ = app(states.ready())
    session.login_error = AccessError("Token refused", "The hub does not know this token.", "Copy it again.")
    async with running.run_test(size=SIZE) as pilot:
        running.run_command("login")
        await until(pilot, lambda: running.screen.query("#token"))
        await pilot.press(*"hf_x", "enter")
        answer = running.screen.query_one("#answer", Static)
        await until(pilot, lambda: "Token refused" in str(answer.render()))
        token = running.screen.query_one(Input)
        await until(pilot, lambda: not token.disabled)
        assert token.value == "hf_x", "kept, to be mended"
        session.login_error = None
        await pilot.press("enter")
        await until(pilot, lambda: "Logged in as ada" in str(answer.render()))
        assert token.value == ""
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "Logged out" in str(answer.render()))


# --- chats -------------------------------------------------------------------------------------------------------
async def test_a_chat_is_found_and_resumed() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("ctrl+r", *"landlord", "enter")
        await until(pilot, lambda: ("resume", "c2") in session.calls)


async def test_a_chat_is_deleted_at_the_second_press() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("ctrl+r", "down", "ctrl+d")
        assert "delete_chat" not in session.names()
        await pilot.press("ctrl+d")
        await until(pilot, lambda: ("delete_chat", "c1") in session.calls)
        await pilot.press("ctrl+z")
        await until(pilot, lambda: ("restore_chat", "c1") in session.calls)
        assert len(running.screen.query_one("#chats", OptionList).options) == len(states.SAVED)


# --- settings ----------------------------------------------------------------------------------------------------
async def test_settings_give_back_what_changed() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("f2")
        await until(pilot, lambda: running.screen.query("#temperature"))
        running.screen.query_one("#temperature", Input).value = "0.2"
        running.screen.query_one("#system", Input).value = "Be brief."
        running.screen.query_one("#max_tokens", Input).value = "400"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(running.screen, ChatScreen))
        assert running.settings.sampling.temperature == 0.2
        assert running.settings.sampling.max_tokens == 400
        assert ("set_system", "Be brief.") in session.calls
        assert ("set_sampling", running.settings.sampling) in session.calls


async def test_a_value_that_cannot_be_is_told() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("f2")
        await until(pilot, lambda: running.screen.query("#top_p"))
        running.screen.query_one("#top_p", Input).value = "7"
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert isinstance(running.screen, SettingsScreen)
        assert "Top p" in str(running.screen.query_one("#wrong", Static).render())
        assert session.calls == []


# --- commands ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("command", [c.name for c in COMMANDS if c.name != "editor"])
async def test_every_command_runs(command: str) -> None:
    running, _, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        running.screen.post_message(CommandRun(command))
        await pilot.pause()
        assert not [n for n in running._notifications if "no command" in n.message]


@pytest.mark.parametrize(
    ("name", "argument", "call"),
    [
        ("model", "org/model", ("open", "org/model")),
        ("system", "Be brief.", ("set_system", "Be brief.")),
        ("retry", "", ("regenerate",)),
        ("new", "", ("new_chat",)),
    ],
)
async def test_commands_take_their_argument(name: str, argument: str, call: tuple[object, ...]) -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        running.screen.post_message(CommandRun(name, argument))
        await until(pilot, lambda: call in session.calls)


async def test_a_theme_is_seen_before_it_is_kept() -> None:
    running, _, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        for last, theme in (("escape", "dark"), ("enter", "forest")):
            running.run_command("theme")
            await until(pilot, lambda: isinstance(running.screen, ThemeScreen) and running.screen.query("#themes"))
            await pilot.press("down")
            await until(pilot, lambda: running.theme == "forest")
            await pilot.press(last)
            await until(pilot, lambda: isinstance(running.screen, ChatScreen))
            assert running.theme == running.settings.theme == theme


async def test_settings_of_the_machine_and_the_screen() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("f2")
        await until(pilot, lambda: running.screen.query("#model_folders"))
        running.screen.query_one("#model_folders", Input).value = "/data/models, ~/other models"
        running.screen.query_one("#comfortable", Input).value = "12"
        running.screen.query_one("#ascii", Select).value = "on"
        running.screen.query_one("#reduced_motion", Select).value = "off"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(running.screen, ChatScreen))
        assert ("set_folders", ("/data/models", "~/other models")) in session.calls
        assert session.calls[-2][0] == "replan" and session.calls[-2][1].comfortable == 12
        assert running.settings.ascii and not running.settings.reduced_motion
        assert running.animation_level == "full"


async def test_theme_by_name_and_an_unknown_command() -> None:
    running, _, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        running.run_command("theme", "light")
        await until(pilot, lambda: running.theme == "light")
        running.run_command("frobnicate")
        await until(pilot, lambda: any("/frobnicate" in n.message for n in running._notifications))


async def test_the_palette_runs_a_command() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("ctrl+p", *"answer again")
        found = running.screen.query_one(OptionList)
        await until(pilot, lambda: found.highlighted is not None and found.option_count == 1)
        await pilot.press("enter")
        await until(pilot, lambda: ("regenerate",) in session.calls)


# --- messages ----------------------------------------------------------------------------------------------------
async def test_send_and_the_keys_of_a_message() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press(*"Hello", "enter")
        await until(pilot, lambda: ("send", "Hello") in session.calls)
        await pilot.press("alt+up", "y")
        assert states.ready().chat is not None
        await until(pilot, lambda: "Import it where you need it." in running.clipboard)
        await pilot.press("r")
        await until(pilot, lambda: ("regenerate",) in session.calls)
        await pilot.press("escape")
        await until(pilot, lambda: running.focused is running.screen.query_one(Composer))


async def test_editing_a_message_replaces_it_and_escape_leaves_it() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("alt+up", "alt+up", "e")
        await until(pilot, lambda: running.chat.draft == "Write it as a Python constant.")
        await pilot.press("escape")
        await until(pilot, lambda: running.chat.draft == "")
        await pilot.press(*"new", "enter")
        await until(pilot, lambda: ("send", "new") in session.calls)
        await pilot.press("alt+up", "alt+up", "e")
        await until(pilot, lambda: running.chat.draft != "")
        await pilot.press(*"!!", "enter")
        await until(pilot, lambda: ("edit", "t3", "Write it as a Python constant.!!") in session.calls)


async def test_a_slash_command_typed_in_the_composer() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press(*"/system Be brief.", "enter")
        await until(pilot, lambda: ("set_system", "Be brief.") in session.calls)


async def test_only_links_of_the_web_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    running, _, _ = app(states.ready())
    opened: list[str] = []
    monkeypatch.setattr(running, "open_url", opened.append)
    async with running.run_test(size=SIZE) as pilot:
        transcript = running.screen.query_one(Transcript)
        transcript.post_message(Transcript.LinkClicked("file:///etc/passwd"))
        transcript.post_message(Transcript.LinkClicked("https://example.org"))
        await until(pilot, lambda: opened == ["https://example.org"])


# --- load --------------------------------------------------------------------------------------------------------
async def test_the_plan_appears_once_it_is_made() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        early = replace(states.loading(), phase=Phase.PREPARING, plan=None)
        session.push(early)
        await until(pilot, lambda: isinstance(running.screen, LoadScreen) and running.screen.ready)
        view = running.screen.query_one(PlanView)
        assert not view.display
        session.push(states.loading())
        await until(pilot, lambda: view.size.height == 5)
