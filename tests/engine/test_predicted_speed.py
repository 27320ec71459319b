"""With the real engine: a second session predicts what the first one measured."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from llmchat.domain.chat import Sampling
from llmchat.session.controller import Session
from llmchat.session.options import SessionOptions

SAMPLING = Sampling(temperature=0.0, max_tokens=40, seed=1)


async def test_the_next_session_predicts_what_was_measured(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    first = Session(SessionOptions(keep=False, sampling=SAMPLING))
    try:
        await first.start()
        first.open(str(tiny))
        async with asyncio.timeout(120):
            before = await first.wait_ready()
            first.send("word " * 100)
            turn = await first.wait_reply()
        state = first.state
    finally:
        await first.close()
    plan, measured = before.plan, state.measured_speed
    assert plan and measured and turn.stats
    assert not any("earlier run" in reason for reason in plan.because)
    assert state.measured_first == turn.stats.time_to_first_token
    assert state.measured_first_tokens == turn.stats.prompt_tokens >= 100

    second = Session(SessionOptions(keep=False, autoload=False))
    try:
        await second.start()
        second.open(str(tiny))
        async with asyncio.timeout(60):
            ranking = await second.wait_ranking()
    finally:
        await second.close()
    again = next(p for p in ranking.plans if p.label == plan.label)
    assert again.formula == pytest.approx(plan.formula)
    seen = turn.stats.prompt_tokens + turn.stats.tokens / 2
    assert again.speed_at(seen) == pytest.approx(measured)
    share = f"{again.tokens_per_second / plan.formula:.0%}"
    assert f"one earlier run of it here gave {share} of the speed by arithmetic: that is counted" in again.because
