"""The composer: keys, pastes, history, commands."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.events import Key, Paste
from textual.widgets import Input

from llmchat.ui import themes
from llmchat.ui.widgets.composer import Composer
from llmchat.ui.widgets.composer_history import History
from llmchat.ui.widgets.composer_paste import Pastes, clean

from .apps import until

LONG = "x = 1\n" * 300


class ComposerApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Any] = []

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.OWN_VARIABLES

    def compose(self) -> ComposeResult:
        yield Composer()
        yield Input()

    @property
    def composer(self) -> Composer:
        return self.query_one(Composer)

    def on_composer_submitted(self, message: Composer.Submitted) -> None:
        self.messages.append(message)

    def on_composer_command_given(self, message: Composer.CommandGiven) -> None:
        self.messages.append(message)

    def on_composer_interrupted(self, message: Composer.Interrupted) -> None:
        self.messages.append(message)


async def test_enter_sends_and_clears() -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*"  hi ", "enter")
        await until(pilot, lambda: app.messages)
        assert app.messages[0].text == "hi" and app.composer.text == ""


async def test_keys_that_come_in_one_burst_keep_their_order() -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.composer.focus()
        await pilot.pause()
        for key, character in [*((c, c) for c in "hello"), ("enter", "\r"), *((c, c) for c in "more")]:
            app.post_message(Key(key, character))
        await until(pilot, lambda: app.composer.text == "more")
        assert [message.text for message in app.messages] == ["hello"]


async def test_blank_text_is_not_sent() -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter", "space", "enter")
        await pilot.pause()
        assert not app.messages


@pytest.mark.parametrize("key", ["shift+enter", "alt+enter", "ctrl+j"])
async def test_a_new_line(key: str) -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("a", key, "b", "enter")
        await until(pilot, lambda: app.messages)
        assert app.messages[0].text == "a\nb"


async def test_it_grows_to_eight_lines() -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        assert app.composer.size.height == 1
        app.composer.draft = "a\nb\nc"
        await until(pilot, lambda: app.composer.size.height == 3)
        app.composer.draft = "a\n" * 30
        await until(pilot, lambda: app.composer.size.height == 8)


async def test_a_short_paste_is_inserted_and_never_sent() -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.composer.post_message(Paste("one\r\ntwo\x1b[31m\r\n"))
        await until(pilot, lambda: app.composer.text)
        assert app.composer.text == "one\ntwo[31m\n" and not app.messages


async def test_a_long_paste_is_folded_and_comes_back() -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*"see ")
        app.composer.post_message(Paste(LONG))
        await until(pilot, lambda: "[pasted 1,800 characters]" in app.composer.text)
        assert app.composer.draft == f"see {LONG}"
        await pilot.press("!", "enter")
        await until(pilot, lambda: app.messages)
        assert app.messages[0].text == f"see {LONG}!"


async def test_a_placeholder_is_deleted_as_a_whole() -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("a")
        app.composer.post_message(Paste(LONG))
        await until(pilot, lambda: "pasted" in app.composer.text)
        await pilot.press("backspace")
        assert app.composer.text == "a"


async def test_history() -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.composer.remember("first")
        await pilot.press(*"two", "ctrl+j", "b", "enter", *"draft", "up")
        assert app.composer.text == "two\nb"
        await pilot.press("up")
        assert app.composer.text == "first"
        await pilot.press("up", "down")
        assert app.composer.text == "two\nb"
        await pilot.press("down")
        assert app.composer.text == "draft"


async def test_up_inside_a_text_moves_the_cursor() -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.composer.remember("old")
        app.composer.draft = "word " * 30
        await until(pilot, lambda: app.composer.size.height == 2)
        await pilot.press("up")
        assert app.composer.text == "word " * 30
        await pilot.press("up")
        assert app.composer.text == "old"


async def test_ctrl_c_copies_clears_then_tells() -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*"abc", "shift+left", "ctrl+c")
        assert app.clipboard == "c" and app.composer.text == "abc"
        await pilot.press("right", "ctrl+c")
        assert app.composer.text == "" and not app.messages
        await pilot.press("ctrl+c")
        await until(pilot, lambda: app.messages)
        assert isinstance(app.messages[0], Composer.Interrupted)


@pytest.mark.parametrize(
    ("typed", "name", "argument"),
    [("/new", "new", ""), ("/model org/name", "model", "org/name"), ("/system  be brief ", "system", "be brief")],
)
async def test_commands(typed: str, name: str, argument: str) -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.composer.draft = typed
        await pilot.press("enter")
        await until(pilot, lambda: app.messages)
        message = app.messages[0]
        assert isinstance(message, Composer.CommandGiven)
        assert (message.name, message.argument) == (name, argument)


@pytest.mark.parametrize(
    ("typed", "sent"), [("/usr/bin is a folder", None), ("//new", "/new"), ("/new\nline", None), ("a /new", None)]
)
async def test_what_is_no_command(typed: str, sent: str | None) -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.composer.draft = typed
        await pilot.press("enter")
        await until(pilot, lambda: app.messages)
        assert isinstance(app.messages[0], Composer.Submitted) and app.messages[0].text == (sent or typed)


async def test_tab_completes_a_command_else_moves_on() -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.composer.commands = ("model", "memory")
        await pilot.press(*"/me")
        assert app.composer.suggestion == "mory"
        await pilot.press("tab")
        assert app.composer.text == "/memory" and app.composer.has_focus
        await pilot.press("tab")
        assert not app.composer.has_focus


async def test_blocked_says_why_and_gives_the_focus_back() -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        assert app.composer.has_focus
        app.composer.blocked = "No model is loaded: F3 chooses one"
        await until(pilot, lambda: app.composer.disabled)
        assert app.composer.placeholder == "No model is loaded: F3 chooses one"
        app.composer.blocked = ""
        await until(pilot, lambda: app.composer.has_focus)
        assert app.composer.placeholder == app.composer.prompt


def test_pastes_of_one_length_are_told_apart() -> None:
    pastes = Pastes()
    first, second = pastes.fold("a" * 2_000), pastes.fold("b" * 2_000)
    assert first != second and pastes.fold("a" * 2_000) == first
    assert pastes.expand(f"{second}-{first}") == "b" * 2_000 + "-" + "a" * 2_000


def test_a_paste_that_quotes_a_placeholder_is_left_alone() -> None:
    pastes = Pastes()
    text = "[pasted 2,000 characters]" + "x" * 1_975
    assert pastes.expand(pastes.fold(text)) == text


def test_clean() -> None:
    assert clean("a\r\nb\rc\x00\x1b\td") == "a\nb\nc\td"


def test_history_keeps_a_repeated_text_once() -> None:
    history = History()
    history.add("a")
    history.add("a")
    assert (history.older(""), history.older("")) == ("a", None)


async def test_it_shows_eight_lines_and_the_cursor_among_them() -> None:
    app = ComposerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        for _ in range(10):
            await pilot.press("a", "ctrl+j")
        await until(pilot, lambda: app.composer.content_size.height == 8)
        await until(pilot, lambda: app.composer.scroll_offset.y == 3)
