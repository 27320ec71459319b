"""Predicted beside measured: what is shown, kept, and counted at the next plan."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from msgspec.structs import replace
from session_kit import GIB, MACHINE, Kit
from test_runs import FACTS

from llmchat.domain.chat import ReplyStats
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.measured import GAP, Run
from llmchat.domain.memory import CPU, Account
from llmchat.domain.plan import Plan, Precision, Refusal, Request
from llmchat.domain.planner import rank
from llmchat.session import compared
from llmchat.session.controller import Session
from llmchat.session.experience import LONG, Experience
from llmchat.session.options import SessionOptions
from llmchat.session.state import Phase, SessionState

PLAN = Plan(
    strategy="cpu", runner="resident", precision=Precision.PUBLISHED, dtype="bfloat16", context=8192,
    placement={}, main_device=CPU, devices={CPU: Account(weights=4 * GIB, kv_cache=GIB, compute=GIB)},
    tokens_per_second=15.0, formula=20.0, time_to_first_token=0.28,
)  # fmt: skip
AS_PLANNED = PLAN.devices


def stats(tokens: int, speed: float, prompt: int = 100) -> ReplyStats:
    seconds = (tokens - 1) / speed
    return ReplyStats(prompt_tokens=prompt, tokens=tokens, time_to_first_token=0.1, seconds=seconds, reason="end")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experience:
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path))
    return Experience(keep=True, clock=itertools.count(1).__next__)


async def runs(experience: Experience) -> tuple[Run, ...]:
    return await experience.of(FACTS, MACHINE)


# --- speed -------------------------------------------------------------------------------------------------------
async def test_the_fastest_reply_of_a_run_counts_against_the_arithmetic(kept: Experience) -> None:
    await kept.loaded(FACTS, MACHINE, PLAN, AS_PLANNED)
    for speed in (12.0, 18.0, 14.0):
        await kept.replied(stats(40, speed))
    (run,) = await runs(kept)
    assert run.formula == 20.0 and run.tokens_per_second == pytest.approx(18.0)
    assert kept.of_now(FACTS, MACHINE) == (run,)


async def test_a_reply_in_a_long_context_says_nothing(kept: Experience) -> None:
    await kept.loaded(FACTS, MACHINE, PLAN, AS_PLANNED)
    await kept.replied(stats(40, 3.0, prompt=LONG - 39))
    assert [run.tokens_per_second for run in await runs(kept)] == [None]
    await kept.replied(stats(40, 12.0, prompt=LONG - 40))
    assert [run.tokens_per_second for run in await runs(kept)] == [pytest.approx(12.0)]


async def test_a_switch_starts_a_new_run(kept: Experience) -> None:
    await kept.loaded(FACTS, MACHINE, PLAN, AS_PLANNED)
    await kept.replied(stats(40, 18.0))
    await kept.loaded(FACTS, MACHINE, replace(PLAN, precision=Precision.INT4, formula=30.0), AS_PLANNED)
    await kept.replied(stats(40, 12.0))
    found = {run.precision: (run.formula, run.tokens_per_second) for run in await runs(kept)}
    assert found == {
        Precision.PUBLISHED: (20.0, pytest.approx(18.0)),
        Precision.INT4: (30.0, pytest.approx(12.0)),
    }


async def test_nothing_is_known_of_a_made_up_machine(kept: Experience, tmp_path: Path) -> None:
    other = Experience(keep=False)
    await other.loaded(FACTS, MACHINE, PLAN, AS_PLANNED)
    await other.replied(stats(40, 18.0))
    await other.ran_out(FACTS, MACHINE, PLAN, CPU)
    assert list(tmp_path.iterdir()) == []
    await kept.loaded(FACTS, MACHINE, PLAN, AS_PLANNED)
    assert await other.of(FACTS, MACHINE) == other.of_now(FACTS, MACHINE) == ()


async def test_a_session_on_a_given_machine_keeps_no_run(kit: Kit) -> None:
    await kit.ready()
    await kit.say("many")
    await kit.session.close()
    assert not list(kit.home.rglob("runs"))


# --- memory ------------------------------------------------------------------------------------------------------
async def test_bytes_beyond_the_plan_are_kept_once(kept: Experience) -> None:
    """The next plan counts them; that it is then met does not lift them, and is no second gap."""
    measured = {CPU: Account(weights=6 * GIB, compute=GIB)}
    await kept.loaded(FACTS, MACHINE, PLAN, measured)
    corrected = replace(PLAN, devices={CPU: Account(weights=4 * GIB, kv_cache=GIB, compute=3 * GIB)})
    await kept.loaded(FACTS, MACHINE, corrected, measured)
    assert [run.extra for run in await runs(kept)] == [{CPU: 2 * GIB}] * 2


async def test_a_plan_that_is_gone_back_to_has_its_bytes_on_record(kept: Experience) -> None:
    measured = {CPU: Account(weights=6 * GIB, compute=GIB)}
    await kept.loaded(FACTS, MACHINE, PLAN, measured)
    await kept.loaded(FACTS, MACHINE, PLAN, measured, again=True)
    assert [run.extra for run in await runs(kept)] == [{CPU: 2 * GIB}, {}]


async def test_where_managed_memory_lies_is_no_gap(kept: Experience) -> None:
    managed = replace(PLAN, runner="managed", devices={"cuda:0": Account(weights=4 * GIB), CPU: Account()})
    await kept.loaded(FACTS, MACHINE, managed, {CPU: Account(weights=4 * GIB)})
    assert [run.extra for run in await runs(kept)] == [{}]


async def test_each_time_memory_runs_out_more_is_kept_free(kept: Experience) -> None:
    await kept.ran_out(FACTS, MACHINE, PLAN, CPU)
    await kept.ran_out(FACTS, MACHINE, PLAN, CPU)
    once = round(GAP * 6 * GIB)
    assert [run.extra[CPU] for run in await runs(kept)] == pytest.approx([once, 2 * once], abs=2)


def remembering(kit: Kit, hardware: HardwareProfile = MACHINE) -> None:
    """A session that keeps what it learns, although its machine is given."""
    kit.session = Session(SessionOptions(hardware=hardware))
    kit.session._experience._keep = True
    kit.watch()


async def test_a_gap_is_told_kept_and_counted_by_the_next_session(kit: Kit) -> None:
    kit.behave(cpu="more")
    remembering(kit)
    first = await kit.ready()
    await kit.session.close()
    assert first.plan and first.plan.label == "cpu" and first.measured
    before, found = first.plan.devices[CPU], first.measured[CPU]
    gap = found.weights + found.compute - before.weights - before.compute
    (said,) = [notice for notice in first.notices if "planned" in notice.text]
    planned = (before.weights + before.compute) / GIB
    assert said.text == f"3.00 GiB of weights and workspace are in RAM; {planned:.2f} GiB were planned"
    assert said.severity == "warning"

    remembering(kit)
    second = await kit.ready()
    assert second.plan and second.plan.label == "cpu"
    assert second.plan.devices[CPU].engine - before.engine == gap
    told = f"{gap / GIB:.2f} GiB more are kept free in RAM: an earlier load took that beyond its plan"
    assert told in second.plan.because
    assert not [notice for notice in second.notices if "planned" in notice.text]


async def test_a_load_that_ran_out_of_memory_is_not_tried_first_by_the_next_session(kit: Kit) -> None:
    """There is just the room for it that the plan asks for."""
    facts = (await kit.ready()).facts
    await kit.session.close()
    assert facts
    small = replace(MACHINE, ram_available=GIB // 2)
    refusals = [p for p in rank(facts, small, Request()).proposals if isinstance(p, Refusal)]
    short = next(r for r in refusals if (r.strategy, r.precision) == ("cpu", Precision.PUBLISHED))
    tight = replace(small, ram_available=small.ram_available + short.missing)
    kit.behave(cpu="oom")

    remembering(kit, tight)
    first = await kit.ready()
    assert first.plan and first.plan.label != "cpu"
    said = [notice.text for notice in first.notices]
    assert said == [f"cpu ran out of memory: Out of memory, scripted. Trying {first.plan.label}."]
    await kit.session.close()

    remembering(kit, tight)
    second = await kit.ready()
    assert second.plan and second.plan.label != "cpu"
    assert second.plan.precision is not Precision.PUBLISHED or "disk" in second.plan.placement.values()
    assert second.notices == ()


# --- first token -------------------------------------------------------------------------------------------------
async def test_the_first_token_counts_where_the_prompt_was_read(kit: Kit) -> None:
    await kit.ready()
    assert compared.first_token(kit.state) == ""
    state = await kit.say("read 63")
    assert state.measured_first is None
    state = await kit.say("read 300")
    assert (state.measured_first, state.measured_first_tokens) == (0.4, 300)
    assert (await kit.say("read 63")).measured_first == 0.4
    kit.session.load(kit.plan("cpu · 4bit"))
    state = await kit.until(lambda s: s.phase is Phase.READY)
    assert state.measured_first is None and state.measured_first_tokens == 0


def test_the_first_token_in_words() -> None:
    state = SessionState(plan=PLAN, measured_first=0.412, measured_first_tokens=1300)
    assert compared.first_token(state) == "first token 0.41 s for 1,300 tokens, predicted 0.28 s for 512"
    assert [compared.seconds(value) for value in (0.0042, 9.87, 12.34, 1234.5)] == [
        "0.0042 s",
        "9.87 s",
        "12.3 s",
        "1,234 s",
    ]


def test_the_speed_with_the_context_full_is_told_where_it_is_much_lower() -> None:
    assert compared.full_speed(replace(PLAN, full_tokens_per_second=11.9)) == 11.9
    assert compared.full_speed(replace(PLAN, full_tokens_per_second=12.0)) is None
    assert compared.full_speed(PLAN) is None
