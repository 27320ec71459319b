"""The strategy table: what stands in it, and what its keys do."""

from __future__ import annotations

from msgspec.structs import replace
from textual.widgets import DataTable, Input, Static

from llmchat.domain.memory import GIB
from llmchat.domain.plan import Precision, Refusal, Request
from llmchat.ui.screens.ask import AskScreen
from llmchat.ui.screens.chat import ChatScreen
from llmchat.ui.screens.picker import PickerScreen
from llmchat.ui.screens.switcher import SwitcherScreen
from llmchat.ui.widgets.proposals import cells, columns, per_gpu, precisions, rows

from . import states
from .apps import app, until

SIZE = (100, 30)


async def test_the_switcher_starts_on_the_recommended_and_loads_what_is_chosen() -> None:
    ranking = replace(states.RANKING, proposals=(states.PLANS[1], *states.PLANS[:1], *states.REFUSALS))
    running, session, _ = app(replace(states.ready(), ranking=ranking, plan=states.OFFLOAD))
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("f4")
        await until(pilot, lambda: running.screen.query(DataTable))
        assert running.screen.query_one(DataTable).cursor_row == 1
        await pilot.press("up", "enter")
        await until(pilot, lambda: ("load", states.PLANS[1]) in session.calls)
        assert isinstance(running.screen, ChatScreen)


async def test_a_refusal_explains_itself_and_is_not_loaded() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("f4", *["down"] * len(states.PLANS), "enter")
        await pilot.pause()
        assert isinstance(running.screen, SwitcherScreen)
        assert "load" not in session.names()
        words = str(running.screen.query_one("#words", Static).render())
        assert "56.9 GiB short on GPU 0" in words
        assert "multi-gpu spreads the layers" in words


async def test_p_changes_the_preference_and_c_the_context() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("f4", "p")
        await until(pilot, lambda: ("replan", Request(prefer="quality")) in session.calls)
        await pilot.press("c")
        await until(pilot, lambda: isinstance(running.screen, AskScreen))
        running.screen.query_one(Input).value = "32,768"
        await pilot.press("enter")
        await until(pilot, lambda: ("replan", Request(prefer="quality", context=32768)) in session.calls)


async def test_a_context_that_is_no_number_changes_nothing() -> None:
    running, session, _ = app(states.ready())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("f4", "c")
        await until(pilot, lambda: isinstance(running.screen, AskScreen))
        running.screen.query_one(Input).value = "a lot"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(running.screen, SwitcherScreen))
        assert session.names().count("replan") == 1


async def test_the_loaded_plan_has_what_was_measured_beside_it() -> None:
    running, _, _ = app(replace(states.ready(), measured_first=0.41, measured_first_tokens=300))
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("f4")
        await until(pilot, lambda: running.screen.query("#words"))
        words = running.screen.query_one("#words", Static)
        told = "measured: 14.1 tok/s, predicted 14.2; first token 0.41 s"
        await until(pilot, lambda: told in str(words.content))
        await pilot.press("down")
        await until(pilot, lambda: "measured" not in str(words.content))


async def test_space_reads_on_below_the_table() -> None:
    running, _, _ = app(states.ready())
    async with running.run_test(size=(80, 24)) as pilot:
        await pilot.press("f4")
        await until(pilot, lambda: running.screen.query("#detail"))
        detail = running.screen.query_one("#detail")
        await until(pilot, lambda: detail.max_scroll_y > 0)
        await pilot.press("space")
        await until(pilot, lambda: detail.scroll_y > 0)
        for _ in range(9):
            await pilot.press("space")
            await pilot.pause()
            if detail.scroll_y == 0:
                return
        raise AssertionError("after the last page comes the first")


async def test_without_a_model_there_is_no_switcher() -> None:
    running, _, _ = app(states.idle())
    async with running.run_test(size=SIZE) as pilot:
        await pilot.press("f4")
        await pilot.pause()
        assert isinstance(running.screen, PickerScreen)


def test_columns_fit_every_width() -> None:
    for width in (74, 94, 122):
        shape = columns(states.RANKING.proposals, width)
        assert sum(column.width for column in shape) <= width
        assert {"strategy", "precision", "gpus", "ram", "speed", "verdict"} <= {column.name for column in shape}
    crowded = [replace(plan, kv="ram", full_tokens_per_second=0.1) for plan in states.PLANS]
    names = [column.name for column in columns(crowded, 74)]
    assert sum(column.width for column in columns(crowded, 74)) <= 74
    assert names == ["mark", "strategy", "precision", "kv", "gpus", "speed", "full", "verdict"]
    eight = {f"cuda:{i}": states.account(10 + 7 * i) for i in range(8)}
    uneven = columns((replace(states.MULTI, devices=eight), *states.PLANS), 74)
    assert sum(column.width for column in uneven) <= 74
    assert "gpus" not in {column.name for column in columns(states.CPU_RANKING.proposals, 122)}


def test_gpus_of_equal_load_are_counted() -> None:
    assert per_gpu(states.MULTI) == "4×35"
    uneven = replace(states.MULTI, devices={"cuda:1": states.account(48), "cuda:0": states.account(71)})
    assert per_gpu(uneven) == "71+48"
    assert per_gpu(replace(states.MULTI, devices={"cuda:0": states.account(0.31)})) == "0.31"


def _refused(strategy: str, precision: Precision, reason: str, missing: int = 0) -> Refusal:
    return Refusal(strategy=strategy, precision=precision, context=8192, reason=reason, missing=missing)


def test_what_cannot_be_had_at_all_takes_one_row_a_strategy_below_the_rest() -> None:
    absent = [_refused(name, each, "There is no GPU.") for each in Precision for name in ("single-gpu", "managed")]
    short = _refused("cpu", Precision.PUBLISHED, "Too large.", missing=GIB)
    disk = [_refused("disk-offload", each, "Not on disk.") for each in (Precision.INT8, Precision.INT4)]
    found = rows([states.CPU_PLAN, *absent, *disk, short])
    assert [(row[0].strategy, precisions(row)) for row in found] == [
        ("cpu", "published"),
        ("cpu", "published"),
        ("single-gpu", "any"),
        ("managed", "any"),
        ("disk-offload", "8, 4 bit"),
    ]
    assert found[1] == (short,)
    shape = columns([states.CPU_PLAN], 74)
    verdicts = [cells(row, shape, 8, best=False, loaded=False)[-1].plain.strip() for row in found]
    assert verdicts == ["fits", "1.0 GiB short", "There is no GPU", "There is no GPU", "Not on disk"]
