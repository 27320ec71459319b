"""Every local strategy on a real card: plain transformers' tokens, the planned bytes, and all given back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from llmchat.domain.chat import Sampling
from llmchat.domain.memory import CPU, DISK, GIB, cuda
from llmchat.domain.plan import Plan, Precision, Request
from llmchat.session.controller import Session
from llmchat.session.options import SessionOptions
from llmchat.session.state import Phase, SessionState

from .conftest import NEW_TOKENS, QUESTION

GREEDY = Sampling(temperature=0.0, top_p=1.0, max_tokens=NEW_TOKENS)
SMALL = {0: int(1.25 * GIB)}
"""A budget that the checkpoint of 1.1 GB does not fit in beside KV cache, activations and the CUDA context."""

CASES = {
    "single-gpu": Request(context=2048, strategy="single-gpu", precision=Precision.PUBLISHED),
    "single-gpu 8bit": Request(context=2048, strategy="single-gpu", precision=Precision.INT8),
    "single-gpu 4bit": Request(context=2048, strategy="single-gpu", precision=Precision.INT4),
    "managed": Request(context=2048, strategy="managed", precision=Precision.PUBLISHED),
    "managed 4bit": Request(context=2048, strategy="managed", precision=Precision.INT4),
    "ram-offload": Request(context=2048, strategy="ram-offload", precision=Precision.PUBLISHED, gpu_budget=SMALL),
    "disk-offload": Request(
        context=2048,
        strategy="disk-offload",
        precision=Precision.PUBLISHED,
        gpu_budget=SMALL,
        ram_budget=int(1.7 * GIB),
    ),
}


async def until(session: Session, condition: Callable[[SessionState], bool], timeout: float = 180) -> SessionState:
    """Wait for a state; a problem on the way is the failure's text."""
    end = time.monotonic() + timeout
    while not condition(session.state):
        problem = session.state.problem
        assert problem is None, f"{problem.title}: {problem.message}\n{problem.detail}" if problem else ""
        assert time.monotonic() < end, f"still {session.state.phase}: {session.state.step}"
        await asyncio.sleep(0.05)
    return session.state


def ready(state: SessionState) -> bool:
    return state.phase is Phase.READY


async def ask(session: Session, text: str) -> str:
    turns = len(session.state.chat.turns) if session.state.chat else 0
    session.send(text)
    state = await until(session, lambda s: ready(s) and s.chat is not None and len(s.chat.turns) == turns + 2)
    assert state.chat
    return state.chat.turns[-1].content


def used() -> int:
    """Bytes used on GPU 0 by everybody but this process's own reserve."""
    free, total = torch.cuda.mem_get_info(0)
    return total - free


def report(plan: Plan, state: SessionState) -> None:
    """One line per device for docs/performance.md: shown with ``pytest -s``."""
    for device, planned in plan.devices.items():
        measured = (state.measured or {}).get(device)
        if measured and device != DISK:
            print(
                f"{plan.label:20} {device:7} weights {planned.weights / GIB:.3f} -> {measured.weights / GIB:.3f}  "
                f"compute {planned.compute / GIB:.3f} -> {measured.compute / GIB:.3f}  "
                f"tok/s {plan.tokens_per_second:.1f} -> {state.measured_speed or 0:.1f}"
            )


@pytest.mark.parametrize("name", CASES)
async def test_strategy(
    name: str,
    checkpoint: Path,
    plain_answer: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = CASES[name]
    expected = plain_answer(str(request.precision))
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path))
    torch.zeros(1, device="cuda")  # this process's own context is there before the first reading
    before = used()
    session = Session(SessionOptions(request=request, sampling=GREEDY))
    await session.start()
    try:
        session.open(str(checkpoint))
        state = await until(session, ready)
        plan, measured = state.plan, state.measured
        assert plan and measured
        assert (plan.strategy, plan.precision) == (request.strategy, request.precision)
        assert await ask(session, QUESTION) == expected
        report(plan, session.state)
        for device, planned in plan.devices.items():
            if device == DISK or (device == CPU and planned.weights == 0):
                continue
            assert measured[device].weights == pytest.approx(planned.weights, rel=0.03), device
        if "offload" in name:
            assert 0 < measured[cuda(0)].weights < state.facts.weight_bytes if state.facts else False
            assert used() - before <= SMALL[0] * 1.03
    finally:
        await session.close()
    assert used() <= before + 64 * 2**20


async def test_switch_gives_memory_back_and_the_chat_goes_on(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path))
    torch.zeros(1, device="cuda")
    before = used()
    session = Session(SessionOptions(request=Request(context=2048, strategy="single-gpu"), sampling=GREEDY))
    await session.start()
    try:
        session.open(str(checkpoint))
        await until(session, ready)
        await ask(session, QUESTION)
        held = used() - before
        ranking = session.replan(Request(context=2048))
        assert ranking
        quarter = next(p for p in ranking.plans if p.strategy == "single-gpu" and p.precision is Precision.INT4)
        session.load(quarter)
        state = await until(
            session, lambda s: ready(s) and s.plan is not None and s.plan.precision is Precision.INT4
        )
        assert used() - before < held
        assert state.chat and len(state.chat.turns) == 2
        await ask(session, "And the second best?")
        assert len(session.state.chat.turns) == 4
    finally:
        await session.close()
    assert used() <= before + 64 * 2**20
