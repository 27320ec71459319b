"""The load: what is done now, how far it is, and what the plan will hold where."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from textual.content import Content
from textual.events import Key, Paste
from textual.message import Message
from textual.widget import Widget
from textual.widgets import ProgressBar, Static

from llmchat.domain.memory import GIB
from llmchat.session.controller import Session
from llmchat.session.state import Phase, SessionState, Step
from llmchat.ui.screens.base import Dialog, StateView
from llmchat.ui.widgets.memory_text import MUTED
from llmchat.ui.widgets.plan_view import PlanView
from llmchat.ui.words import duration, predicted, printable

PHASES = (Phase.PREPARING, Phase.LOADING, Phase.SWITCHING)


class LoadScreen(StateView, Dialog[None]):
    """Opens and closes by itself with the phase; Esc aborts."""

    CSS_PATH = "load.tcss"
    HEADING = "Loading"
    HINTS = (("Esc", "stop loading"), ("^Q", "quit"))

    class Typed(Message):
        """A key or a paste that means nothing here: it is for the composer, where the next message is written."""

        def __init__(self, event: Key | Paste) -> None:
            super().__init__()
            self.event = event

    def __init__(self, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(session)
        self._clock = clock

    def body(self) -> Iterable[Widget]:
        yield Static(id="model")
        yield Static(id="stage")
        yield ProgressBar(id="progress", show_eta=False)
        yield Static(id="numbers")
        yield Static(id="plan")
        yield PlanView(id="devices")

    def on_key(self, event: Key) -> None:
        if event.key not in self.active_bindings:
            event.stop()
            self.post_message(self.Typed(Key(event.key, event.character)))

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self.post_message(self.Typed(Paste(event.text)))

    def on_screen_resume(self) -> None:
        if self.ready:
            self.show(self.session.state)

    def show(self, state: SessionState) -> None:
        if state.phase not in PHASES:
            if self.is_active:
                self.dismiss(None)
            return
        name = printable(state.model.title) if state.model else "the model"
        self.query_one("#model", Static).update(Content.styled(name, "bold"))
        self._show_step(state.step)
        self._show_plan(state)

    def _show_step(self, step: Step | None) -> None:
        self.query_one("#stage", Static).update(Content(step.stage if step else "Starting"), layout=False)
        known = step is not None and step.total > 0
        bar = self.query_one(ProgressBar)
        bar.display = known
        if step is not None and known:
            bar.update(total=step.total, progress=step.done)
        self.query_one("#numbers", Static).update(
            Content.styled(progress_words(step, self._clock()) if step else "", MUTED), layout=False
        )

    def _show_plan(self, state: SessionState) -> None:
        plan = state.plan
        title, view = self.query_one("#plan", Static), self.query_one(PlanView)
        title.display = view.display = plan is not None
        if plan is not None:
            words = f"planned: {predicted(plan)}, context {plan.context:,}"
            title.update(Content.assemble((plan.label, "bold $primary"), (f"  {words}", MUTED)))
            view.hardware, view.plan = state.hardware, plan

    def action_cancel(self) -> None:
        self.session.stop()


def progress_words(step: Step, now: float) -> str:
    """``33.1 of 131 GiB  4.9 GiB/s  20 s left``: what is known of it; where nothing is, ``for 12 s``."""
    taken = now - step.started
    rate = step.done / taken if step.started and taken > 0.5 else 0.0
    parts = []
    if step.unit == "bytes" and (step.done or step.total):
        unit, name, digits = (GIB, "GiB", 1) if max(step.done, step.total) >= GIB else (2**20, "MiB", 0)
        of = f" of {step.total / unit:.{digits}f}" if step.total else ""
        parts.append(f"{step.done / unit:.{digits}f}{of} {name}")
        if rate:
            parts.append(f"{rate / GIB:.2f} GiB/s" if rate >= GIB else f"{rate / 2**20:.0f} MiB/s")
    elif step.total:
        parts.append(f"{step.done:,} of {step.total:,} {step.unit}".rstrip())
    if rate and step.total > step.done:
        parts.append(f"{duration((step.total - step.done) / rate)} left")
    elif not parts and step.started and taken >= 2:
        parts.append(f"for {duration(taken)}")
    return "   ".join(parts)
