"""What every key and command of the app does."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from textual import work
from textual.app import App
from textual.screen import Screen
from textual.widgets import Input, TextArea

from llmchat.domain.plan import Plan
from llmchat.errors import LlmchatError, Problem
from llmchat.session.controller import Session
from llmchat.session.saved.settings import Settings
from llmchat.session.state import ModelRef
from llmchat.ui import keys
from llmchat.ui.commands import BY_NAME
from llmchat.ui.screens.chat import ChatScreen
from llmchat.ui.widgets.transcript import Transcript
from llmchat.ui.words import printable

AGAIN_WITHIN = 2.0
"""Seconds in which the second Ctrl+C quits."""


class Actions(App[None], inherit_bindings=False):
    """The half of the app that opens screens and calls the session."""

    session: Session
    settings: Settings
    clock: Callable[[], float]
    """Monotonic seconds."""
    theme_names: list[str]
    """Ours and the person's."""
    _interrupted = -AGAIN_WITHIN

    def shows(self, kind: type[Screen[Any]]) -> bool:
        """Whether a screen of this kind is open, be it under another one."""
        return any(isinstance(screen, kind) for screen in self.screen_stack)

    def notify_problem(self, problem: Problem) -> None:
        """An error that stops nothing: told at the side."""
        words = f"{problem.message}\n{problem.remedy}".strip()
        self.notify(printable(words), title=problem.title, severity="error", timeout=10, markup=False)

    def run_command(self, name: str, argument: str = "") -> None:
        """Run a command of ``commands.COMMANDS`` by its name; an unknown one is told."""
        if name not in BY_NAME:
            self.notify(f"There is no command /{name}; F1 lists them.", severity="warning", markup=False)
            return
        action = getattr(self, f"action_{name}")
        self.call_later(action, *([argument] if inspect.signature(action).parameters else []))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A priority binding of the app comes before those of a dialog: these ones must not."""
        return not (action in keys.NOT_OVER_DIALOGS and self.screen.is_modal)

    @property
    def chat(self) -> ChatScreen:
        screen = self.screen_stack[0]
        assert isinstance(screen, ChatScreen)
        return screen

    # --- screens ---------------------------------------------------------------------------------------------
    def action_model(self, model: str = "") -> None:
        from llmchat.ui.screens.picker import PickerScreen

        def chosen(choice: ModelRef | str | None) -> None:
            if choice is not None:
                self.session.open(choice)

        if model:
            self.session.open(model)
        elif not self.shows(PickerScreen):
            self.push_screen(PickerScreen(self.session), chosen)

    def action_strategy(self) -> None:
        from llmchat.ui.screens.switcher import SwitcherScreen

        def chosen(plan: Plan | None) -> None:
            if plan is not None:
                self.session.load(plan)

        if self.session.state.model is None:
            self.notify("First choose a model (F3).", severity="warning")
        elif not self.shows(SwitcherScreen):
            self.push_screen(SwitcherScreen(self.session, self.session.request), chosen)

    def action_chats(self) -> None:
        from llmchat.ui.screens.chats import ChatsScreen

        def chosen(chat_id: str | None) -> None:
            if chat_id is not None:
                self.session.resume(chat_id)

        if not self.shows(ChatsScreen):
            self.push_screen(ChatsScreen(self.session), chosen)

    def action_settings(self) -> None:
        from llmchat.ui.screens.settings import SettingsScreen

        if not self.shows(SettingsScreen):
            self.push_screen(SettingsScreen(self.session, self.settings, self.theme_names), self.apply_settings)

    def apply_settings(self, changes: dict[str, Any] | None) -> None:
        """Take what the settings screen gave back into force."""
        if not changes:
            return
        self.change_settings(changes)
        if "theme" in changes:
            self.theme = changes["theme"]
        if "sampling" in changes:
            self.session.set_sampling(changes["sampling"])
        if "system" in changes:
            self.session.set_system(changes["system"])
        request = {key: changes[key] for key in ("prefer", "comfortable") if key in changes}
        if request:
            self.session.replan(msgspec.structs.replace(self.session.request, **request))
        if "model_folders" in changes:
            self.session.set_folders(changes["model_folders"])
        if "panel" in changes:
            self.chat.mode = changes["panel"]
        if "ascii" in changes:
            self.refresh_css(animate=False)
        if "reduced_motion" in changes:
            self.animation_level = "none" if changes["reduced_motion"] else "full"

    def action_login(self) -> None:
        from llmchat.ui.screens.login import LoginScreen

        self.push_screen(LoginScreen(self.session))

    def action_log(self) -> None:
        from llmchat.ui.screens.log import LogScreen

        if not self.shows(LogScreen):
            self.push_screen(LogScreen(self.session))

    def action_help(self) -> None:
        from llmchat.ui.screens.help import HelpScreen

        if not self.shows(HelpScreen):
            self.push_screen(HelpScreen(self.session, self._keys_here(), self.settings.keys))

    def _keys_here(self) -> list[keys.Row]:
        """The keys of the screen's and the focused widget's own bindings, if they are not the chat's."""
        if self.screen is self.chat and not isinstance(self.focused, Transcript):
            return []
        bindings = [a.binding for a in self.screen.active_bindings.values() if a.node is not self and a.enabled]
        own = [b for b in bindings if b.description and b.id]
        return [(self.get_key_display(b), b.description, b.id or "") for b in own]

    def action_theme(self, name: str = "") -> None:
        """Take the named theme; without a name, let one be chosen."""
        from llmchat.ui.screens.theme import ThemeScreen

        def chosen(choice: str | None) -> None:
            if choice is not None:
                self.apply_settings({"theme": choice})

        if not name:
            self.push_screen(ThemeScreen(self.session, self.theme_names, self.theme), chosen)
        elif name in self.theme_names:
            chosen(name)
        else:
            names = ", ".join(self.theme_names)
            self.notify(f"There is no theme {name}: {names}.", severity="warning", markup=False)

    # --- the chat --------------------------------------------------------------------------------------------
    def action_new(self) -> None:
        self.session.new_chat()

    def action_retry(self) -> None:
        self.chat.again()

    def action_reload(self) -> None:
        if self.session.state.plan is None:
            self.notify("First choose a model (F3).", severity="warning")
        else:
            self.session.reload()

    def action_stop(self) -> None:
        self.session.stop()

    def action_system(self, text: str = "") -> None:
        """Set the system prompt of this chat; without a text, ask for it."""
        from llmchat.ui.screens.ask import AskScreen

        def asked(answer: str | None) -> None:
            if answer is not None:
                self.session.set_system(answer.strip())

        if text:
            self.session.set_system(text)
            return
        chat = self.session.state.chat
        what = "What the model is told before this chat; empty for nothing"
        self.push_screen(AskScreen(self.session, "System prompt", what, chat.system if chat else ""), asked)

    def action_export(self, path: str = "") -> None:
        try:
            written = self.session.export(Path(path).expanduser() if path else None)
        except LlmchatError as error:
            self.notify_problem(error.problem)
        else:
            self.notify(f"Written to {written}", title="Exported", markup=False)

    def action_copy(self) -> None:
        """Copy the last reply."""
        chat = self.session.state.chat
        replies = [turn.content for turn in chat.turns if turn.role == "assistant"] if chat else []
        if replies:
            self.copy_to_clipboard(replies[-1])

    def action_memory(self) -> None:
        self.chat.action_memory()

    def action_thinking(self) -> None:
        self.chat.action_thinking()

    def action_editor(self) -> None:
        """Hand the terminal to the person's editor, then take the text into the composer."""
        self._behind_typing(self._edit_outside)

    def _behind_typing(self, act: Callable[[], None]) -> None:
        """Act once the focused widget has taken the keys that a binding of priority overtook."""
        (self.focused or self).call_later(act)

    def _edit_outside(self) -> None:
        from llmchat.ui.editor import edit

        try:
            with self.suspend():
                text = edit(self.chat.draft)
        except LlmchatError as error:
            self.notify_problem(error.problem)
        else:
            self.chat.draft = text

    # --- stop and quit ---------------------------------------------------------------------------------------
    def action_interrupt(self) -> None:
        """Ctrl+C: copy a selection, else clear the draft, else stop, else quit at the second time."""
        self._behind_typing(self._interrupt)

    def _interrupt(self) -> None:
        now = self.clock()
        if self._copy_selection() or self._clear_draft() or self.session.stop():
            return
        if now - self._interrupted < AGAIN_WITHIN:
            self.exit()
            return
        self._interrupted = now
        self.notify("Press Ctrl+C again to quit.", timeout=AGAIN_WITHIN)

    def _copy_selection(self) -> bool:
        focused = self.focused
        text = focused.selected_text if isinstance(focused, Input | TextArea) else ""
        text = text or self.screen.get_selected_text() or ""
        if text:
            self.copy_to_clipboard(text)
            self.screen.clear_selection()
        return bool(text)

    def _clear_draft(self) -> bool:
        focused = self.focused
        if isinstance(focused, Input) and focused.value:
            focused.value = ""
            return True
        if self.screen is self.chat and self.chat.draft:
            self.chat.draft = ""
            return True
        return False

    # --- settings and copies ---------------------------------------------------------------------------------
    def change_settings(self, changes: dict[str, Any]) -> None:
        """Take ``changes`` into force, and keep them in the file."""
        self.settings = msgspec.structs.replace(self.settings, **changes)
        self._save_settings(changes)

    @work(group="settings")
    async def _save_settings(self, changes: dict[str, Any]) -> None:
        from llmchat.session.saved import settings

        try:
            await asyncio.to_thread(settings.save, changes)
        except LlmchatError as error:
            self.notify_problem(error.problem)

    def copy_to_clipboard(self, text: str) -> None:
        """By the terminal (OSC 52), and by the system's tool or into a file."""
        super().copy_to_clipboard(text)
        self._copy_further(text)

    @work(group="clipboard")
    async def _copy_further(self, text: str) -> None:
        from llmchat.session.paths import data_dir
        from llmchat.ui.clipboard import copied

        self.notify(await asyncio.to_thread(lambda: copied(text, data_dir())), timeout=3, markup=False)
