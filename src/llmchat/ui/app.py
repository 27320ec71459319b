"""The app: brings the session's state to the screens, and what the person asks for to the session."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.binding import BindingType
from textual.events import Resize
from textual.filter import LineFilter
from textual.screen import Screen

from llmchat.errors import Problem
from llmchat.session.controller import Session
from llmchat.session.saved.settings import Settings
from llmchat.session.state import Phase, SessionState
from llmchat.ui import keys, themes
from llmchat.ui.actions import Actions
from llmchat.ui.layout import too_small
from llmchat.ui.messages import CommandRun, StateChanged
from llmchat.ui.screens.base import StateView
from llmchat.ui.screens.chat import ChatScreen
from llmchat.ui.widgets.composer import Composer

if TYPE_CHECKING:
    from llmchat.ui.screens.load import LoadScreen

LOADING = (Phase.PREPARING, Phase.LOADING, Phase.SWITCHING)


def _palette() -> Any:
    from llmchat.ui.commands import LlmchatCommands

    return LlmchatCommands


class LlmchatApp(Actions, inherit_bindings=False):
    """The first screen is the chat; the picker, the load and every error open over it by the state alone."""

    TITLE = "llmchat"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["app.tcss", "screens/chat.tcss"]
    """The chat's is here: Textual loads no stylesheet for a default screen."""
    BINDINGS: ClassVar[list[BindingType]] = [*keys.APP]
    COMMANDS: ClassVar[set[Any]] = {_palette}
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        session: Session,
        settings: Settings,
        model: str | None = None,
        *,
        theme_folders: tuple[Path, ...] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.session, self.settings, self.clock = session, settings, clock
        self._model = model
        self._folders = theme_folders
        self._last_phase = session.state.phase
        self._unsubscribe: Callable[[], None] | None = None
        self.set_keymap(settings.keys)
        if settings.reduced_motion:
            self.animation_level = "none"
        self._load_themes()

    def get_default_screen(self) -> Screen[Any]:
        return ChatScreen(self.session, self.settings.panel)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.OWN_VARIABLES

    def get_line_filters(self) -> list[LineFilter]:
        filters = list(super().get_line_filters())
        if self.settings.ascii:
            from llmchat.ui.ascii import AsciiFilter

            filters.append(AsciiFilter())
        return filters

    # --- themes ----------------------------------------------------------------------------------------------
    def _load_themes(self) -> None:
        """Register ours and the person's; what is broken or missing is told once the screen stands."""
        found = themes.load_all(*(self._folders or (themes.own_folder(), themes.user_folder())))
        for theme in found.themes:
            self.register_theme(theme)
        self.theme_names = sorted(theme.name for theme in found.themes)
        self._theme_problems = list(found.problems)
        if self.settings.theme in self.theme_names:
            self.theme = self.settings.theme
            return
        self.theme = themes.DEFAULT if themes.DEFAULT in self.theme_names else self.theme
        self._theme_problems.append(themes.missing(self.settings.theme, self.theme_names))

    # --- state to screens ------------------------------------------------------------------------------------
    def on_mount(self) -> None:
        self._unsubscribe = self.session.subscribe(self._changed)
        for problem in self._theme_problems:
            self.notify_problem(problem)
        if self._model is not None:
            self.session.open(self._model)
        elif self.session.state.model is None and not too_small(*self.size):
            self.action_model()
        self.call_after_refresh(self._follow)

    def _changed(self, state: SessionState) -> None:
        self.post_message(StateChanged(state))

    def on_unmount(self) -> None:
        if self._unsubscribe:
            self._unsubscribe()

    @on(StateChanged)
    def _follow(self, event: StateChanged | None = None) -> None:
        """Show the newest state, and open the screens it asks for."""
        state = self.session.state
        for screen in self.screen_stack:
            if isinstance(screen, StateView) and screen.ready:
                screen.show(state)
        self._route(state)

    def _route(self, state: SessionState) -> None:
        from llmchat.ui.screens.load import LoadScreen
        from llmchat.ui.screens.picker import PickerScreen
        from llmchat.ui.screens.problem import ProblemScreen
        from llmchat.ui.screens.too_small import TooSmallScreen

        if self.shows(TooSmallScreen):
            return
        before, self._last_phase = self._last_phase, state.phase
        if state.phase in LOADING and not self.shows(LoadScreen):
            self.push_screen(LoadScreen(self.session, self.clock))
        elif state.phase is Phase.IDLE and before is not Phase.IDLE and not self.shows(PickerScreen):
            self.action_model()
        if state.problem is not None and not self.shows(ProblemScreen):
            self._show_problem(state.problem, opened=state.model is not None)

    def _show_problem(self, problem: Problem, *, opened: bool) -> None:
        from llmchat.ui.screens.problem import Answer, ProblemScreen

        def answered(answer: Answer | None) -> None:
            self.session.dismiss()
            if answer == "reload":
                self.session.reload()
            elif answer == "strategy":
                self.action_strategy()
            elif answer == "log":
                self.action_log()
            elif not opened:
                self.action_model()

        self.push_screen(ProblemScreen(self.session, problem, opened=opened), answered)

    def on_resize(self, event: Resize) -> None:
        from llmchat.ui.screens.too_small import TooSmallScreen

        if too_small(*event.size) and not self.shows(TooSmallScreen):
            self.push_screen(TooSmallScreen(), lambda _: self._grown())

    def _grown(self) -> None:
        """There is room again: for the choice of a model too, where none was made yet."""
        from llmchat.ui.screens.picker import PickerScreen

        state = self.session.state
        nothing = self._model is None and state.model is None and state.phase is Phase.IDLE
        if nothing and not self.shows(PickerScreen):
            self.action_model()
        self._follow()

    # --- messages --------------------------------------------------------------------------------------------
    @on(CommandRun)
    def _run_command(self, event: CommandRun) -> None:
        self.run_command(event.name, event.argument)

    @on(Composer.CommandGiven)
    def _typed_command(self, event: Composer.CommandGiven) -> None:
        self.run_command(event.name, event.argument)

    def on_load_screen_typed(self, event: LoadScreen.Typed) -> None:
        """By its name, as the screen is imported when it is first shown."""
        self.chat.query_one(Composer).post_message(event.event)

    @on(ChatScreen.PanelChanged)
    def _panel(self, event: ChatScreen.PanelChanged) -> None:
        self.change_settings({"panel": event.mode})
