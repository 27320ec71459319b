"""Switching the strategy: a transaction, whatever happens in it."""

from __future__ import annotations

from session_kit import MACHINE, Kit

from llmchat.domain.plan import Precision, Request
from llmchat.session.controller import Session
from llmchat.session.options import SessionOptions
from llmchat.session.state import Phase


async def test_a_switch_takes_a_new_engine_and_keeps_the_chat(kit: Kit) -> None:
    await kit.ready()
    await kit.say("one")
    before = kit.session._engine.pid
    kit.session.load(kit.plan("cpu · 4bit"))
    assert kit.state.phase is Phase.SWITCHING
    state = await kit.until(lambda s: s.phase is Phase.READY)
    assert state.plan and state.plan.label == "cpu · 4bit"
    assert kit.session._engine.pid != before
    assert kit.leftovers() == [kit.session._engine.pid]
    assert state.notices[-1].text.startswith("Switched to cpu · 4bit in 0.0 s: measured 0.0 GiB in RAM")
    assert state.notices[-1].after == 2
    await kit.say("two")
    assert kit.answers()[-1] == "You said 'two' after uau."
    assert kit.state.chat and kit.state.chat.turns[-1].label == "cpu · 4bit"
    assert kit.state.chat.precision == "4bit"


async def test_a_switch_in_the_middle_of_a_reply_keeps_its_part(kit: Kit) -> None:
    await kit.ready()
    first = kit.state.plan
    kit.session.send("slow")
    await kit.until(lambda s: s.reply and "3 " in s.reply.answer)
    kit.session.load(kit.plan("cpu · 4bit"))
    state = await kit.until(lambda s: s.phase is Phase.READY)
    assert state.reply is None
    assert kit.answers()[0].startswith("1 2 3 ")
    assert state.chat and state.chat.turns[-1].stats and state.chat.turns[-1].stats.reason == "stopped"
    assert first and state.chat.turns[-1].label == first.label
    await kit.say("on")
    assert kit.answers()[-1] == "You said 'on' after uau."


async def test_a_switch_away_from_a_deaf_reply(kit: Kit, monkeypatch: object) -> None:
    await kit.ready()
    kit.session.send("deaf")
    await kit.until(lambda s: s.reply and s.reply.tokens)
    kit.session.load(kit.plan("cpu · 4bit"))
    state = await kit.until(lambda s: s.phase is Phase.READY)
    assert kit.answers() == ["part "]
    assert state.plan and state.plan.label == "cpu · 4bit"


async def test_a_failed_switch_goes_back(kit: Kit) -> None:
    before = await kit.ready()
    await kit.say("one")
    kit.behave(cpu_4bit="oom")
    kit.session.load(kit.plan("cpu · 4bit"))
    state = await kit.until(lambda s: s.problem and s.phase is Phase.READY)
    assert state.problem and state.problem.kind == "OutOfMemory"
    assert state.plan == before.plan
    assert before.plan
    assert state.notices[-1].text == f"cpu · 4bit: Out of memory. Back on {before.plan.label}."
    await kit.say("two")
    assert kit.answers()[-1] == "You said 'two' after uau."


async def test_a_switch_that_kills_the_engine_goes_back(kit: Kit) -> None:
    before = await kit.ready()
    kit.behave(cpu_4bit="die")
    kit.session.load(kit.plan("cpu · 4bit"))
    state = await kit.until(lambda s: s.problem and s.phase is Phase.READY)
    assert state.problem and state.problem.kind == "EngineKilled"
    assert state.plan == before.plan and state.engine == "ready"


async def test_when_going_back_fails_too_nothing_is_loaded(kit: Kit) -> None:
    before = await kit.ready()
    assert before.plan
    kit.behave(**{"cpu_4bit": "oom", before.plan.label.replace(" · ", "_"): "die"})
    kit.session.load(kit.plan("cpu · 4bit"))
    state = await kit.until(lambda s: s.problem and s.phase is Phase.FAILED)
    assert state.problem and state.problem.kind == "OutOfMemory"
    assert any("Going back" in notice.text for notice in state.notices)
    kit.behave()
    kit.session.reload()
    state = await kit.until(lambda s: s.phase is Phase.READY)
    assert state.plan == before.plan


async def test_a_first_load_that_fails_can_be_tried_otherwise(kit: Kit) -> None:
    await kit.session.start()
    best = kit.session
    kit.behave(cpu="oom", cpu_8bit="oom")
    kit.session.open(str(kit.folder))
    state = await kit.until(lambda s: s.problem)
    assert state.phase is Phase.FAILED and best.state.ranking
    kit.session.load(kit.plan("cpu · 4bit"))
    state = await kit.until(lambda s: s.phase is Phase.READY)
    assert state.problem is None


async def test_esc_in_a_switch_goes_back(kit: Kit) -> None:
    before = await kit.ready()
    kit.behave(cpu_4bit="slow")
    kit.session.load(kit.plan("cpu · 4bit"))
    await kit.until(lambda s: s.step and s.step.stage == "Reading weights")
    assert kit.session.stop()
    state = await kit.until(lambda s: s.phase is Phase.READY)
    assert state.plan == before.plan and state.problem is None
    await kit.say("one")
    assert kit.answers() == ["You said 'one' after u."]


async def test_esc_at_once_does_not_end_the_engine(kit: Kit) -> None:
    await kit.ready()
    pid = kit.session._engine.pid
    kit.session.load(kit.plan("cpu · 4bit"))
    kit.session.stop()
    await kit.until(lambda s: s.phase is Phase.READY)
    assert kit.session._engine.pid == pid


async def test_esc_in_the_first_load_leads_to_the_picker(kit: Kit) -> None:
    await kit.session.start()
    kit.behave(cpu="slow")
    kit.session.open(str(kit.folder))
    await kit.until(lambda s: s.step and s.step.stage == "Reading weights")
    kit.session.stop()
    state = await kit.until(lambda s: s.phase is Phase.IDLE)
    assert state.model is None and state.plan is None and state.problem is None
    kit.behave()
    kit.session.open(str(kit.folder))
    await kit.until(lambda s: s.phase is Phase.READY)


async def test_esc_while_going_back_gives_up(kit: Kit) -> None:
    before = await kit.ready()
    assert before.plan
    kit.behave(**{"cpu_4bit": "oom", before.plan.label.replace(" · ", "_"): "slow"})
    kit.session.load(kit.plan("cpu · 4bit"))
    await kit.until(lambda s: s.plan == before.plan and s.step and s.step.stage == "Reading weights")
    kit.session.stop()
    state = await kit.until(lambda s: s.phase is Phase.FAILED)
    assert state.model == before.model
    kit.behave()
    kit.session.reload()
    await kit.until(lambda s: s.phase is Phase.READY)


async def test_of_two_quick_switches_the_last_wins(kit: Kit) -> None:
    await kit.ready()
    eight, four = kit.plan("cpu · 8bit"), kit.plan("cpu · 4bit")
    kit.session.load(eight)
    kit.session.load(four)
    state = await kit.until(lambda s: s.phase is Phase.READY)
    assert state.plan == four
    assert [n.text.split(" in ")[0] for n in state.notices] == ["Switched to cpu · 4bit"]
    kit.behave(cpu_8bit="slow")
    kit.session.load(eight)
    await kit.until(lambda s: s.step and s.step.stage == "Reading weights")
    kit.session.load(kit.plan("cpu"))
    state = await kit.until(lambda s: s.phase is Phase.READY)
    assert state.plan and state.plan.label == "cpu"


async def test_ten_switches_in_a_row(kit: Kit) -> None:
    await kit.ready()
    plans = [kit.plan("cpu · 4bit"), kit.plan("cpu")]
    for number in range(10):
        kit.session.load(plans[number % 2])
        state = await kit.until(lambda s: s.phase is Phase.READY)
        assert state.plan == plans[number % 2]
        await kit.say(f"turn {number}")
    assert len(kit.answers()) == 10
    assert kit.answers()[-1] == f"You said 'turn 9' after {'ua' * 9}u."
    assert kit.leftovers() == [kit.session._engine.pid]


async def test_a_plan_that_no_longer_fits_leaves_the_loaded_one(kit: Kit) -> None:
    before = await kit.ready()
    pid = kit.session._engine.pid
    gone = kit.plan("cpu · 4bit")
    kit.session._loader.request = Request(ram_budget=1)
    kit.session.load(gone)
    state = await kit.until(lambda s: s.problem and s.phase is Phase.READY)
    assert state.problem and state.problem.kind == "FitError"
    assert state.plan == before.plan and kit.session._engine.pid == pid


async def test_replan_for_another_context(kit: Kit) -> None:
    await kit.ready()
    ranking = kit.session.replan(Request(context=512))
    assert ranking and ranking.best and ranking.best.context == 512
    assert kit.state.ranking == ranking
    kit.session.load(ranking.best)
    state = await kit.until(lambda s: s.phase is Phase.READY)
    assert state.plan and state.plan.context == 512


async def test_a_strategy_before_a_model(kit: Kit) -> None:
    await kit.session.start()
    assert kit.session.replan(Request()) is None
    kit.session.reload()
    assert kit.state.problem and kit.state.problem.title == "No model"


async def test_out_of_memory_in_a_first_load_tries_the_next_lighter_plan_once(kit: Kit) -> None:
    kit.behave(cpu="oom", **{"disk-offload": "oom"})
    await kit.session.start()
    kit.session.open(str(kit.folder))
    state = await kit.until(lambda s: s.phase is Phase.READY)
    assert state.plan and state.plan.label == "cpu · 8bit" and state.problem is None
    said = [notice.text for notice in state.notices]
    assert said == ["cpu ran out of memory: Out of memory, scripted. Trying cpu · 8bit."]
    assert len(kit.pids) == 2, "a process that ran out of memory is not loaded into again"


async def test_an_engine_that_the_system_kills_while_loading_ran_out_of_memory_too(kit: Kit) -> None:
    kit.behave(cpu="die")
    await kit.session.start()
    kit.session.open(str(kit.folder))
    state = await kit.until(lambda s: s.phase is Phase.READY)
    assert state.plan and state.plan.label == "cpu · 8bit" and state.problem is None
    said = [notice.text for notice in state.notices]
    assert said[0].startswith("cpu ran out of memory: The engine was killed (signal 9)")
    assert said[0].endswith("Trying cpu · 8bit.")


async def test_out_of_memory_twice_leaves_the_choice_to_the_person(kit: Kit) -> None:
    kit.behave(cpu="oom", cpu_8bit="oom")
    await kit.session.start()
    kit.session.open(str(kit.folder))
    state = await kit.until(lambda s: s.problem and s.phase is Phase.FAILED)
    assert state.problem and state.problem.kind == "OutOfMemory"
    assert state.ranking and state.ranking.plans, "F4 has something to offer"


async def test_out_of_memory_within_what_was_asked_for(kit: Kit) -> None:
    kit.behave(cpu="oom")
    kit.session = Session(SessionOptions(hardware=MACHINE, request=Request(precision=Precision.PUBLISHED)))
    kit.watch()
    await kit.session.start()
    kit.session.open(str(kit.folder))
    state = await kit.until(lambda s: s.phase in (Phase.READY, Phase.FAILED))
    assert state.plan is None or state.plan.precision is Precision.PUBLISHED


async def test_what_came_out_otherwise_than_planned_is_said(kit: Kit) -> None:
    kit.behave(cpu="note")
    state = await kit.ready()
    assert [(n.text, n.severity) for n in state.notices] == [
        ("0.10 GiB of weights are in RAM; 0.04 GiB were planned", "warning")
    ]
