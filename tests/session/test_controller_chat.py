"""Replies and chats through the session: what is kept, given back and saved, whatever happens meanwhile."""

from __future__ import annotations

import os
import signal

import pytest
from msgspec.structs import replace
from session_kit import Kit

from llmchat.errors import EngineDied, LlmchatError
from llmchat.session.process import client
from llmchat.session.state import Phase


async def test_a_reply_streams_and_becomes_a_turn(kit: Kit) -> None:
    await kit.ready()
    partial: list[str] = []
    kit.session.subscribe(lambda s: partial.append(s.reply.answer) if s.reply else None)
    state = await kit.say("Hello, you there.\nHow are you?")
    assert kit.answers() == ["You said 'Hello, you there.\\nHow are you?' after u."]
    assert state.chat and state.chat.title == "Hello, you there. How are you?"
    turn = state.chat.turns[-1]
    assert turn.stats and turn.stats.tokens == 2 and turn.stats.reason == "end"
    assert state.plan and turn.label == state.plan.label
    assert state.chat.strategy == state.plan.strategy
    assert state.measured_speed is None, "two tokens say nothing about speed"
    assert partial[-1] == turn.content
    assert (await kit.session.wait_reply()) == turn


async def test_a_short_reply_does_not_overwrite_the_measured_speed(kit: Kit) -> None:
    await kit.ready()
    state = await kit.say("many")
    assert state.measured_speed is not None and state.measured_speed > 100
    again = await kit.say("short")
    assert again.measured_speed == state.measured_speed


async def test_the_history_is_sent_along_with_the_system_prompt(kit: Kit) -> None:
    await kit.ready()
    await kit.say("one")
    kit.session.set_system("Be brief.")
    await kit.say("two")
    assert kit.answers()[-1] == "You said 'two' after suau."


async def test_thinking_is_kept_apart(kit: Kit) -> None:
    await kit.ready()
    state = await kit.say("think")
    assert state.chat and (state.chat.turns[-1].thinking, state.chat.turns[-1].content) == ("hm", "yes")


async def test_stop_keeps_the_part(kit: Kit) -> None:
    await kit.ready()
    kit.session.send("slow")
    await kit.until(lambda s: s.reply and "3 " in s.reply.answer)
    assert kit.session.stop()
    state = await kit.settled()
    assert state.phase is Phase.READY and state.problem is None
    assert state.chat and state.chat.turns[-1].stats
    assert state.chat.turns[-1].stats.reason == "stopped"
    assert kit.answers()[0].startswith("1 2 3 ")
    assert not kit.session.stop()
    await kit.say("again")
    assert kit.answers()[-1] == "You said 'again' after uau."


async def test_stop_before_the_first_token_gives_the_text_back(kit: Kit) -> None:
    await kit.ready()
    kit.session.send("slow")
    assert kit.session.stop()
    state = await kit.settled()
    if not kit.answers():
        assert state.draft == "slow"
        assert state.chat and state.chat.turns == ()
    assert state.phase is Phase.READY and state.problem is None


async def test_a_refused_prompt_comes_back_as_a_draft(kit: Kit) -> None:
    await kit.ready()
    await kit.say("fine")
    state = await kit.say("refuse")
    assert state.problem and state.problem.kind == "PromptError"
    assert state.phase is Phase.READY
    assert state.chat and len(state.chat.turns) == 2
    assert kit.session.take_draft() == "refuse"
    assert kit.session.take_draft() == ""
    kit.session.dismiss()
    assert kit.state.problem is None
    with pytest.raises(LlmchatError):
        await kit.say("refuse")
        await kit.session.wait_reply()


async def test_out_of_memory_keeps_the_part_and_the_model(kit: Kit) -> None:
    await kit.ready()
    state = await kit.say("oom")
    assert state.problem and state.problem.kind == "OutOfMemory"
    assert kit.answers() == ["the part "]
    assert state.chat and state.chat.turns[-1].stats and state.chat.turns[-1].stats.reason == "failed"
    await kit.say("next")
    assert kit.answers()[-1] == "You said 'next' after uau."


async def test_death_keeps_the_part_and_reload_goes_on(kit: Kit) -> None:
    await kit.ready()
    state = await kit.say("die")
    assert state.phase is Phase.FAILED
    assert state.problem and state.problem.kind == "EngineKilled" and "signal 9" in state.problem.message
    assert kit.answers() == ["the part "]
    assert state.engine == "down"
    plan = state.plan
    kit.session.reload()
    state = await kit.until(lambda s: s.phase is Phase.READY)
    assert state.plan == plan and state.problem is None
    await kit.say("still there?")
    assert kit.answers()[-1] == "You said 'still there?' after uau."


async def test_death_before_the_first_token_gives_the_text_back(kit: Kit) -> None:
    await kit.ready()
    state = await kit.say("die at once")
    assert (state.phase, state.draft) == (Phase.FAILED, "die at once")


async def test_death_while_idle_is_told(kit: Kit) -> None:
    await kit.ready()
    assert kit.session._engine.pid
    os.kill(kit.session._engine.pid, signal.SIGKILL)
    state = await kit.until(lambda s: s.phase is Phase.FAILED)
    assert state.problem and state.problem.kind == "EngineKilled"
    kit.session.send("anybody?")
    assert kit.state.draft == "anybody?"
    assert kit.state.problem and kit.state.problem.title == "No model is loaded"


async def test_an_engine_that_cannot_start(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ENGINE", ("/nowhere/python",))
    await kit.session.start()
    assert kit.state.problem and kit.state.problem.kind == "EngineDied"
    kit.session.open(str(kit.folder))
    with pytest.raises(EngineDied):
        await kit.session.wait_ready()


async def test_sending_too_early_gives_the_text_back(kit: Kit) -> None:
    await kit.session.start()
    kit.session.open(str(kit.folder))
    kit.session.send("early")
    assert kit.session.take_draft() == "early"
    await kit.until(lambda s: s.phase is Phase.READY)
    kit.session.send("slow")
    kit.session.send("too many")
    assert kit.session.take_draft() == "too many"
    kit.session.stop()
    await kit.settled()


async def test_regenerate_answers_again(kit: Kit) -> None:
    await kit.ready()
    await kit.say("one")
    await kit.say("two")
    kit.session.regenerate()
    await kit.session._replier.ended()
    assert kit.answers() == ["You said 'one' after u.", "You said 'two' after uau."]


async def test_edit_drops_what_came_after(kit: Kit) -> None:
    await kit.ready()
    await kit.say("one")
    state = await kit.say("two")
    assert state.chat
    kit.session.edit(state.chat.turns[0].id, "uno")
    await kit.session._replier.ended()
    assert kit.answers() == ["You said 'uno' after u."]
    assert kit.state.chat and kit.state.chat.title == "uno"
    kit.session.edit("no such turn", "text")
    assert kit.state.phase is Phase.READY


async def test_an_edit_that_fails_gives_the_chat_back(kit: Kit) -> None:
    await kit.ready()
    state = await kit.say("one")
    assert state.chat
    kit.session.edit(state.chat.turns[0].id, "refuse")
    await kit.session._replier.ended()
    assert kit.answers() == ["You said 'one' after u."]
    assert kit.state.draft == "refuse"


async def test_chats_are_saved_found_and_resumed(kit: Kit) -> None:
    await kit.ready()
    await kit.say("about cats")
    kit.session.new_chat()
    await kit.until(lambda s: s.chat and not s.chat.turns)
    await kit.say("about dogs")
    assert [chat.title for chat in kit.session.chats()] == ["about dogs", "about cats"]
    (cats,) = kit.session.chats("cats")
    kit.session.resume(cats.id)
    await kit.until(lambda s: s.chat and s.chat.id == cats.id)
    await kit.say("more")
    assert kit.answers()[-1] == "You said 'more' after uau."
    kit.session.delete_chat(cats.id)
    await kit.until(lambda s: s.chat and s.chat.id != cats.id)
    assert [chat.title for chat in kit.session.chats()] == ["about dogs"]


async def test_the_question_is_saved_before_the_answer(kit: Kit) -> None:
    await kit.ready()
    kit.session.send("slow")
    await kit.until(lambda s: s.reply and s.reply.tokens > 2)
    (saved,) = kit.session.chats()
    assert [turn.content for turn in kit.session._keeper.get(saved.id).turns] == ["slow"]
    kit.session.stop()
    await kit.settled()
    assert len(kit.session._keeper.get(saved.id).turns) == 2


async def test_an_unanswered_question_comes_back_on_resume(kit: Kit) -> None:
    await kit.ready()
    state = await kit.say("first")
    assert state.chat
    turn = replace(state.chat.turns[0], id="x", content="unanswered")
    await kit.session._keeper.save(replace(state.chat, turns=(*state.chat.turns, turn)))
    kit.session.resume(state.chat.id)
    state = await kit.until(lambda s: s.draft)
    assert state.draft == "unanswered"
    assert state.chat and len(state.chat.turns) == 2


async def test_a_new_chat_in_the_middle_of_a_reply_keeps_its_part(kit: Kit) -> None:
    await kit.ready()
    kit.session.send("slow")
    await kit.until(lambda s: s.reply and s.reply.tokens > 2)
    kit.session.new_chat()
    await kit.until(lambda s: s.chat and not s.chat.turns)
    (saved,) = kit.session.chats()
    kept = kit.session._keeper.get(saved.id)
    assert kept.turns[-1].content.startswith("1 2 ")
    assert kit.state.phase is Phase.READY


async def test_a_new_chat_is_there_at_once(kit: Kit) -> None:
    await kit.ready()
    await kit.say("one")
    kit.session.new_chat()
    await kit.say("two")
    assert kit.answers() == ["You said 'two' after u."]
    assert len(kit.session.chats()) == 2


async def test_a_deleted_chat_stays_deleted_after_its_reply(kit: Kit) -> None:
    await kit.ready()
    kit.session.send("slow")
    state = await kit.until(lambda s: s.reply and s.reply.tokens > 2)
    assert state.chat
    kit.session.delete_chat(state.chat.id)
    kit.session.send("too early")
    assert kit.session.take_draft() == "too early"
    await kit.until(lambda s: s.chat and not s.chat.turns and s.phase is Phase.READY)
    assert kit.session.chats() == []


async def test_a_system_prompt_set_during_a_reply_holds_for_the_next(kit: Kit) -> None:
    await kit.ready()
    kit.session.send("slow")
    await kit.until(lambda s: s.reply and s.reply.tokens > 2)
    kit.session.set_system("Be brief.")
    kit.session.stop()
    await kit.settled()
    await kit.say("next")
    assert kit.answers()[-1] == "You said 'next' after suau."
