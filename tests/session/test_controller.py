"""The session over the scripted engine: opening, chatting, stopping, dying."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from session_kit import MACHINE, Kit, model_folder, too_small

from llmchat.domain.chat import Sampling
from llmchat.domain.plan import Precision, Request
from llmchat.errors import FitError, LlmchatError, UsageError
from llmchat.session import hub, watching
from llmchat.session.controller import Session
from llmchat.session.models import catalog
from llmchat.session.options import SessionOptions
from llmchat.session.process import client
from llmchat.session.saved import settings
from llmchat.session.state import MemorySample, ModelRef, Phase, SessionState


async def test_open_plans_loads_and_measures(kit: Kit) -> None:
    state = await kit.ready()
    assert kit.phases == [Phase.IDLE, Phase.PREPARING, Phase.LOADING, Phase.READY]
    assert state.model and state.model.kind == "local"
    assert state.facts and state.facts.architecture == "LlamaForCausalLM"
    assert state.ranking and state.plan == state.ranking.best
    assert state.measured and state.measured["cpu"].weights == 40 * 2**20
    assert state.load_seconds == 0.02
    assert state.engine == "ready"
    assert state.step is None and state.problem is None


async def test_facts_are_kept_and_a_plan_then_needs_no_engine(kit: Kit) -> None:
    await kit.ready()
    session = Session(SessionOptions(hardware=MACHINE, autoload=False, keep=False))
    await session.start()
    session.open(str(kit.folder))
    ranking = await session.wait_ranking()
    assert ranking.best
    assert session.state.facts == kit.state.facts
    assert session._engine.pid is None
    await session.close()


async def test_a_plan_without_kept_facts_starts_the_engine_itself(kit: Kit) -> None:
    session = Session(SessionOptions(hardware=MACHINE, autoload=False, keep=False))
    await session.start()
    session.open(str(kit.folder))
    assert (await session.wait_ranking()).best
    await session._store.wait(lambda state: not state.busy)
    assert session.state.plan is None
    await session.close()


async def test_an_unknown_model_leaves_the_picker(kit: Kit) -> None:
    await kit.session.start()
    kit.session.open(str(kit.home / "nowhere"))
    state = await kit.until(lambda s: s.problem)
    assert state.problem and state.problem.kind == "ModelError"
    assert state.phase is Phase.IDLE and state.model is None
    with pytest.raises(LlmchatError):
        await kit.session.wait_ready()


async def test_nothing_fits_keeps_the_ranking(kit: Kit) -> None:
    kit.session = Session(SessionOptions(hardware=too_small()))
    kit.watch()
    await kit.session.start()
    kit.session.open(str(kit.folder))
    with pytest.raises(FitError):
        await kit.session.wait_ready()
    assert kit.state.phase is Phase.FAILED
    assert kit.state.ranking and kit.state.ranking.best is None


async def test_a_sampler_that_fails_is_told_once(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def sample(self, held: object, engine_pid: object) -> MemorySample:
            raise OSError("driver gone")

    monkeypatch.setattr(watching, "CALM", 0.05)
    monkeypatch.setattr(kit.session._watch, "_make", Broken)
    await kit.ready()
    state = await kit.until(lambda s: s.notices)
    await kit.say("still works")
    said = "The memory cannot be read: The system reported an error."
    assert [n.text for n in kit.state.notices] == [said]
    assert state.phase is not Phase.FAILED


async def test_a_bug_in_the_background_is_told(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken() -> None:
        raise ValueError("a bug")

    await kit.session.start()
    kit.session._background.begin(broken())
    state = await kit.until(lambda s: s.notices)
    assert state.problem is None and "a bug" not in state.notices[0].text
    assert state.notices[0].severity == "warning"
    assert "ValueError: a bug" in kit.session.log_tail()


async def test_chats_that_cannot_be_saved_are_told_once(kit: Kit) -> None:
    await kit.ready()
    (kit.home / "data").mkdir(exist_ok=True)
    (kit.home / "data" / "history.sqlite3").mkdir()
    await kit.say("one")
    await kit.say("two")
    assert len(kit.answers()) == 2
    assert [n.text[:28] for n in kit.state.notices] == ["This chat is not being saved"]


async def test_a_damaged_history_is_set_aside_and_told(kit: Kit) -> None:
    await kit.ready()
    (kit.home / "data").mkdir(exist_ok=True)
    (kit.home / "data" / "history.sqlite3").write_bytes(b"no database at all, certainly none" * 100)
    await kit.say("one")
    assert len(kit.state.notices) == 1 and "damaged" in kit.state.notices[0].text
    assert [chat.title for chat in kit.session.chats()] == ["one"]


async def test_notes_are_said_once_and_the_border_is_no_notice(kit: Kit) -> None:
    await kit.ready()
    await kit.say("complete")
    await kit.say("complete")
    await kit.say("long")
    state = await kit.say("long")
    assert [(n.after, n.text) for n in state.notices] == [(1, "Completion mode.")]
    assert state.seen_from == 2  # the border itself is the transcript's to draw


async def test_deltas_are_drawn_at_most_thirty_times_a_second(kit: Kit) -> None:
    await kit.ready()
    answers: set[str] = set()
    kit.session.subscribe(lambda s: answers.add(s.reply.answer) if s.reply else None)
    begun = asyncio.get_running_loop().time()
    state = await kit.say("many")
    seconds = asyncio.get_running_loop().time() - begun
    assert state.chat and state.chat.turns[-1].content == "word " * 3000
    assert len(answers) <= seconds * 30 + 4


async def test_sampling_and_request_come_from_the_options(kit: Kit) -> None:
    options = SessionOptions(
        hardware=MACHINE, sampling=Sampling(temperature=0.0), request=Request(precision=Precision.INT4)
    )
    kit.session = Session(options)
    kit.watch()
    state = await kit.ready()
    assert state.plan and state.plan.precision is Precision.INT4
    assert kit.session.sampling.temperature == 0.0


async def test_a_preference_given_by_hand_counts_over_the_settings(kit: Kit) -> None:
    (kit.home / "config").mkdir(exist_ok=True)
    settings.save({"prefer": "speed"})
    kit.session = Session(SessionOptions(hardware=MACHINE))
    await kit.session.start()
    assert kit.session.request.prefer == "speed"
    await kit.session.close()
    kit.session = Session(SessionOptions(hardware=MACHINE, prefer="balanced"))
    await kit.session.start()
    assert kit.session.request.prefer == "balanced"


@pytest.mark.parametrize("error", [ImportError("no name x", name="huggingface_hub"), ValueError("raw")])
async def test_a_look_up_that_fails_is_no_dialog(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(*args: object) -> None:
        raise error

    monkeypatch.setattr(hub, "account", broken)
    monkeypatch.setattr(catalog, "models", broken)
    await kit.session.start()
    state = await kit.until(lambda s: s.account.note and s.notices)
    assert state.problem is None
    said = state.account.note + state.notices[0].text
    assert str(error) not in said and type(error).__name__ not in said
    assert state.notices[0].text.startswith("The models on this disk cannot be listed: ")
    assert str(error) in kit.session.log_tail()


async def test_turns_name_the_embedded_model_as_its_authors_do() -> None:
    assert ModelRef(kind="embedded", id="smollm2").name == "SmolLM2-135M-Instruct"
    assert ModelRef(kind="hub", id="org/model").name == "org/model"


async def test_export_writes_the_chat(kit: Kit, tmp_path: Path) -> None:
    await kit.ready()
    with pytest.raises(UsageError):
        kit.session.export()
    await kit.say("to keep")
    path = kit.session.export(tmp_path / "chat.md")
    assert "to keep" in path.read_text()
    again = kit.session.export(tmp_path / "chat.md")
    assert again.name == "chat-2.md" and again.is_file()


async def test_memory_samples_come_in(kit: Kit) -> None:
    await kit.ready()
    state = await kit.until(lambda s: len(s.history) >= 2)
    assert state.memory == state.history[-1]
    assert state.memory and state.memory.engine_pid == kit.session._engine.pid


async def test_a_hanging_engine_is_told_and_stop_ends_it(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    await kit.ready()
    engine = kit.session._engine._client
    assert engine
    monkeypatch.setattr(engine, "_patience", client.Patience(hanging=0.2, kill=60, tick=0.05))
    kit.session.send("deaf")
    await kit.until(lambda s: s.reply and s.reply.tokens)
    assert kit.session._engine.pid
    os.kill(kit.session._engine.pid, signal.SIGSTOP)
    await kit.until(lambda s: s.hanging)
    kit.session.stop()
    state = await kit.settled()
    assert state.phase is Phase.FAILED and not state.hanging
    assert kit.answers() == ["part "]


async def test_another_model_goes_on_with_the_chat(kit: Kit) -> None:
    await kit.ready()
    await kit.say("hello")
    other = model_folder(kit.home, "other")
    kit.session.open(str(other))
    state = await kit.until(lambda s: s.phase is Phase.READY)
    assert state.model and state.model.title == "other"
    await kit.say("you too")
    assert kit.answers()[-1] == "You said 'you too' after uau."


async def test_a_model_that_is_none_leaves_the_loaded_one(kit: Kit) -> None:
    before = await kit.ready()
    kit.session.open(str(kit.home / "nowhere"))
    state = await kit.until(lambda s: s.problem and s.phase is Phase.READY)
    assert (state.model, state.plan) == (before.model, before.plan)
    await kit.say("still here")
    assert kit.answers() == ["You said 'still here' after u."]


async def test_changes_gives_the_newest_state(kit: Kit) -> None:
    seen: list[SessionState] = []

    async def follow() -> None:
        async for state in kit.session.changes():
            seen.append(state)
            if state.phase is Phase.READY:
                return

    task = asyncio.create_task(follow())
    await kit.ready()
    await asyncio.wait_for(task, 5)
    assert seen[0].phase is Phase.IDLE and seen[-1].phase is Phase.READY


async def test_close_in_the_middle_of_anything_leaves_no_process(kit: Kit) -> None:
    await kit.session.start()
    kit.session.open(str(kit.folder))
    await kit.until(lambda s: s.phase is Phase.LOADING)
    await kit.session.close()
    assert kit.leftovers() == []


async def test_close_in_the_middle_of_a_reply_keeps_the_part(kit: Kit) -> None:
    await kit.ready()
    kit.session.send("slow")
    await kit.until(lambda s: s.reply and s.reply.tokens > 2)
    await kit.session.close()
    assert kit.answers()[0].startswith("1 2 ")
