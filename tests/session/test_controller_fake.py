"""The session over the shipped fake engine, on machines that are not here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from session_kit import model_folder

from llmchat.domain.plan import Plan, Request
from llmchat.session.controller import Session
from llmchat.session.options import SessionOptions
from llmchat.session.state import Phase

HARDWARE = Path(__file__).parents[1] / "data" / "hardware"


@pytest.fixture
async def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Session]:
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path))
    monkeypatch.setenv("LLMCHAT_FAKE_SPEED", "200")
    monkeypatch.setenv("LLMCHAT_FAKE_LOAD_SECONDS", "0.1")
    made = Session(SessionOptions(fake=HARDWARE / "p3.8xlarge.json"))
    yield made
    pid = made._engine.pid
    await made.close()
    assert pid is None or not psutil.pid_exists(pid)


async def test_chat_switch_and_chat_on_four_gpus(session: Session, tmp_path: Path) -> None:
    await session.start()
    session.open(str(model_folder(tmp_path)))
    state = await session.wait_ready()
    assert state.hardware and len(state.hardware.gpus) == 4
    session.send("Hello")
    first = await session.wait_reply()
    assert first.content and first.label == (state.plan.label if state.plan else "")
    await session._store.wait(lambda s: s.memory is not None)
    assert session.state.memory and len(session.state.memory.gpus) == 4
    ranking = session.replan(Request())
    assert ranking
    other = next(p for p in ranking.proposals if isinstance(p, Plan) and p.strategy == "multi-gpu")
    session.load(other)
    state = await session.wait_ready()
    assert state.plan and state.plan.strategy == "multi-gpu"
    session.send("Still there?")
    await session.wait_reply()
    assert state.chat and session.state.chat and len(session.state.chat.turns) == 4


async def test_a_death_in_a_long_reply(session: Session, tmp_path: Path) -> None:
    await session.start()
    session.open(str(model_folder(tmp_path)))
    await session.wait_ready()
    session.send("!die")
    await session._replier.ended()
    assert session.state.phase is Phase.FAILED
    session.dismiss()
    session.reload()
    assert (await session.wait_ready()).phase is Phase.READY
