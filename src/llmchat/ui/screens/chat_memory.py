"""The memory on the chat's screen: in which form, and what is in it."""

from __future__ import annotations

from textual.screen import Screen

from llmchat.session.state import Phase, SessionState
from llmchat.ui.layout import Form, Mode, memory_form
from llmchat.ui.widgets.memory_line import MemoryLine
from llmchat.ui.widgets.memory_panel import MemoryPanel
from llmchat.ui.widgets.memory_rows import MemoryRows
from llmchat.ui.widgets.standing import Standing
from llmchat.ui.widgets.status_bar import StatusBar
from llmchat.ui.words import room, standing, used


def show_memory(screen: Screen[None], state: SessionState, mode: Mode) -> None:
    """Choose the form for the screen's size, and fill only that one."""
    gpus = len(state.memory.gpus if state.memory else state.hardware.gpus if state.hardware else ())
    form = memory_form(screen.size.width, screen.size.height, gpus + 1, mode)
    panel, rows, line = screen.query_one(MemoryPanel), screen.query_one(MemoryRows), screen.query_one(MemoryLine)
    panel.display, rows.display, line.display = form == "panel", form == "rows", form == "line"
    screen.query_one(StatusBar).display = form != "line"
    _show_standing(screen.query_one(Standing), state, form)
    if form == "panel":
        panel.planned = state.plan.devices if state.plan else None
        panel.loaded, panel.room = state.measured is not None, room(state)
        panel.tokens = (used(state), state.plan.context if state.plan else 0)
        panel.sample, panel.history = state.memory, state.history
    elif form == "rows":
        rows.sample = state.memory
    elif form == "line":
        line.sample, line.rate = state.memory, state.measured_speed
        line.label = state.plan.label if state.plan else ""


def _show_standing(view: Standing, state: SessionState, form: Form) -> None:
    view.display = form != "line" and state.phase in (Phase.READY, Phase.GENERATING, Phase.FAILED)
    if view.display:
        view.words = standing(state)
        view.aside = "" if form == "panel" else room(state)
