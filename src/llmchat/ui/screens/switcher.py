"""The strategy switcher: every strategy times every precision, what it takes and how fast it would be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec
from textual import on
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import DataTable, Static

from llmchat.domain.plan import Kv, Plan, Prefer, Ranking, Request
from llmchat.domain.words import KV_CACHES
from llmchat.session.controller import Session
from llmchat.session.state import Phase, SessionState
from llmchat.ui import keys
from llmchat.ui.bars import DOT
from llmchat.ui.screens.ask import AskScreen
from llmchat.ui.screens.base import Dialog, StateView
from llmchat.ui.widgets.memory_text import MUTED
from llmchat.ui.widgets.plan_view import PlanView
from llmchat.ui.widgets.proposals import Row, cells, columns, detail, rows
from llmchat.ui.words import measured, printable

PREFERENCES: tuple[Prefer, ...] = ("balanced", "quality", "speed")
KV_CHOICES: tuple[Kv | None, ...] = (None, "device", "8bit", "ram")


class SwitcherScreen(StateView, Dialog[Plan]):
    """Gives back the plan to load; None for the one that is loaded. The cursor starts on the recommended one."""

    CSS_PATH = "switcher.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.SWITCHER]
    HEADING = "Strategies"
    HINTS = (
        ("Enter", "load"),
        ("↑↓", "choose"),
        ("p", "prefer"),
        ("c", "context"),
        ("k", "KV"),
        ("Space", "more"),
        ("Esc", "close"),
    )

    def __init__(self, session: Session, request: Request) -> None:
        super().__init__(session)
        self._request = request
        self._ranking: Ranking | None = None
        self._rows: list[Row] = []
        self._width = 0

    def body(self) -> Iterable[Widget]:
        yield Static(id="why")
        yield DataTable(id="proposals", cursor_type="row", cell_padding=0, cursor_foreground_priority="renderable")
        yield VerticalScroll(Static(id="words"), PlanView(id="devices"), id="detail", can_focus=False)

    def on_mount(self) -> None:
        ranking = self.session.replan(self._request)
        self._draw(ranking or self.session.state.ranking, self.session.state)
        self.query_one(DataTable).focus()

    def on_resize(self, event: Resize) -> None:
        if event.size.width != self._width:
            self._width = event.size.width
            self._draw(self._ranking, self.session.state)

    def show(self, state: SessionState) -> None:
        if self._ranking is None and state.ranking is not None:
            self._draw(state.ranking, state)

    def _draw(self, ranking: Ranking | None, state: SessionState) -> None:
        """Rebuild the table; the cursor goes to the recommended plan, or stays where the person put it."""
        table = self.query_one(DataTable)
        old, self._ranking = self._ranking, ranking
        row = table.cursor_row if old is ranking else None
        table.clear(columns=True)
        self.query_one("#why", Static).update(self._heading(ranking, state))
        if ranking is None:
            return
        shape = columns(ranking.proposals, self.size.width - 6)
        for column in shape:
            table.add_column(column.heading, width=column.width)
        self._rows = rows(ranking.proposals)
        for each in self._rows:
            loaded = isinstance(each[0], Plan) and same(each[0], state.plan)
            best = each[0] == ranking.best
            table.add_row(*cells(each, shape, self._request.comfortable, best=best, loaded=loaded))
        first = self._rows.index((ranking.best,)) if ranking.best else 0
        table.move_cursor(row=first if row is None else row)
        self._explain()

    def _heading(self, ranking: Ranking | None, state: SessionState) -> Content:
        if ranking is None:
            return Content.styled("No model is open: F3 chooses one.", MUTED)
        context = next((p.context for p in ranking.proposals), 0)
        name = printable(state.model.title) if state.model else ""
        facts = f"prefer {self._request.prefer} {DOT} context {context:,}"
        if self._request.kv:
            facts += f" {DOT} KV cache {KV_CACHES[self._request.kv]}"
        return Content.assemble((name, "bold"), (f"  {facts}\n", MUTED), ranking.why)

    @on(DataTable.RowHighlighted)
    def _explain(self) -> None:
        row, view = self._at_cursor(), self.query_one(PlanView)
        proposal = row[0] if row else None
        view.display = isinstance(proposal, Plan)
        if row is None:
            return
        words = self.query_one("#words", Static)
        enough = self._ranking.enough if self._ranking else ()
        state = self.session.state
        loaded = isinstance(proposal, Plan) and same(proposal, state.plan)
        width = words.size.width or self.size.width - 7
        words.update(detail(row, width, enough, measured(state) if loaded else ()))
        self.query_one("#detail", VerticalScroll).scroll_home(animate=False)
        if isinstance(proposal, Plan):
            view.hardware, view.plan = self.session.state.hardware, proposal

    def _at_cursor(self) -> Row | None:
        row = self.query_one(DataTable).cursor_row
        return self._rows[row] if row < len(self._rows) else None

    @on(DataTable.RowSelected)
    def _choose(self) -> None:
        row = self._at_cursor()
        if row and isinstance(row[0], Plan):
            state = self.session.state
            here = state.phase in (Phase.READY, Phase.GENERATING) and same(row[0], state.plan)
            self.dismiss(None if here else row[0])
        elif row is not None:
            self.app.bell()

    def action_prefer(self) -> None:
        following = PREFERENCES[(PREFERENCES.index(self._request.prefer) + 1) % len(PREFERENCES)]
        self._replan(msgspec.structs.replace(self._request, prefer=following))

    def action_kv(self) -> None:
        """Where the KV cache fits, with the layers, in 8 bit, in RAM; and round again."""
        following = KV_CHOICES[(KV_CHOICES.index(self._request.kv) + 1) % len(KV_CHOICES)]
        self._replan(msgspec.structs.replace(self._request, kv=following))

    def action_more(self) -> None:
        """The next page of the words below the table; after the last the first."""
        detail = self.query_one("#detail", VerticalScroll)
        if detail.scroll_y < detail.max_scroll_y:
            detail.scroll_page_down(animate=False)
        else:
            detail.scroll_home(animate=False)

    def action_context(self) -> None:
        facts = self.session.state.facts
        limit = f", at most {facts.max_context:,}" if facts and facts.max_context else ""
        now = next((str(p.context) for p in self._ranking.proposals), "") if self._ranking else ""
        ask = AskScreen(self.session, "Context", f"Tokens the chat may take{limit}", now)
        self.app.push_screen(ask, self._set_context)

    def _set_context(self, text: str | None) -> None:
        number = (text or "").replace(",", "").replace(".", "").strip()
        if number.isdigit() and int(number) > 0:
            self._replan(msgspec.structs.replace(self._request, context=int(number)))
        elif number:
            self.notify(f"{text} is not a number of tokens.", severity="error", title="Context")

    def _replan(self, request: Request) -> None:
        """Plan anew; what the planner will not do is shown by the session's problem, and nothing changes."""
        ranking = self.session.replan(request)
        if ranking is not None:
            self._request = request
            self._draw(ranking, self.session.state)


def same(plan: Plan, other: Plan | None) -> bool:
    """The same way of holding the model, whatever the numbers of free memory were."""
    return other is not None and (plan.strategy, plan.precision, plan.kv, plan.context) == (
        other.strategy,
        other.precision,
        other.kv,
        other.context,
    )
