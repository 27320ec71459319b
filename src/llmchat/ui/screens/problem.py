"""An error: what happened, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from llmchat.errors import Problem
from llmchat.session.controller import Session
from llmchat.ui import keys
from llmchat.ui.screens.base import Dialog
from llmchat.ui.words import printable

Answer = Literal["reload", "strategy", "log"]

RELOADABLE = {"EngineDied", "EngineKilled", "OutOfMemory", "InternalError"}
"""Kinds after which the same plan can be tried again."""
STRATEGY_HELPS = {"EngineDied", "EngineKilled", "OutOfMemory", "FitError", "PromptError"}


class ProblemScreen(Dialog[Answer]):
    """Gives back what the person chose to do about it; None for closing."""

    CSS_PATH = "problem.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.PROBLEM]

    def __init__(self, session: Session, problem: Problem, *, opened: bool) -> None:
        """``opened``: a model is open, so that reload and another strategy make sense."""
        super().__init__(session)
        self.problem = problem
        self.HEADING = printable(problem.title)
        self._can = {
            "reload": opened and problem.kind in RELOADABLE,
            "strategy": opened and problem.kind in STRATEGY_HELPS,
            "log": True,
        }
        wanted = (("r", "reload"), ("F4", "strategy"), ("l", "log"))
        words = {"strategy": "other strategy"}
        self.HINTS = (
            ("Enter", "close"),
            *((key, words.get(name, name)) for key, name in wanted if self._can[name]),
        )

    def on_mount(self) -> None:
        self.query_one("#remedy").display = bool(self.problem.remedy)

    def body(self) -> Iterable[Widget]:
        yield VerticalScroll(
            Static(printable(self.problem.message), markup=False, id="message"),
            Static(printable(self.problem.remedy), markup=False, id="remedy"),
            can_focus=False,
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._can.get(action, True)

    def action_reload(self) -> None:
        self.dismiss("reload")

    def action_strategy(self) -> None:
        self.dismiss("strategy")

    def action_log(self) -> None:
        self.dismiss("log")
