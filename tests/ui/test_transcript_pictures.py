"""Screenshots of the transcript and the composer. After a change that is meant, look at them, then update
with ``--snapshot-update``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from llmchat.session.state import Notice
from llmchat.ui.widgets.transcript import Transcript

from .apps import until
from .talk import HOSTILE, RICH, TalkApp, assistant, reply, user

Compare = Callable[..., bool]

QUESTION = user(1, "What is the capital of France?\nAnswer at length.")
ANSWER = assistant(2, RICH, "The user asks for the capital. " * 20)
NOTICES = (
    Notice(after=2, text="Switched from ram-offload to cpu in 4.2 s; the conversation goes on."),
    Notice(after=4, text="This chat is not being saved: the disk is full.", severity="warning"),
)
LATER = (user(3, "Thanks"), assistant(4, "You are welcome. " * 12, reason="length"))
TABLE = "Here it is:\n\n| GPU | memory |\n|---|---:|\n| H100 | 80 GB |\n| A100 | 40"
CODE = "Sure:\n\n```python\ndef fibonacci(n: int) -> int:\n    if n < 2:\n        return n\n    return fib"
SIZES = [(80, 24), (120, 40)]
APPS: dict[str, Callable[[], TalkApp]] = {
    "rich": lambda: TalkApp(QUESTION, ANSWER),
    "later": lambda: TalkApp(QUESTION, ANSWER, *LATER, notices=NOTICES, seen_from=2),
    "table": lambda: TalkApp(QUESTION, reply=reply(TABLE), model="SmolLM2-135M-Instruct", label="cpu, bf16"),
    "code": lambda: TalkApp(QUESTION, reply=reply(CODE, "Code is wanted."), model="SmolLM2", label="cpu, bf16"),
    "thinking": lambda: TalkApp(QUESTION, reply=reply("", "First I look at the question. " * 12)),
    "hostile": lambda: TalkApp(user(1, HOSTILE), assistant(2, HOSTILE)),
    "empty": lambda: TalkApp(),
}


async def settled(pilot: Pilot[Any]) -> None:
    transcript = pilot.app.query_one(Transcript)
    await until(pilot, lambda: transcript.lines.total > 1)


def keys(*names: str) -> Callable[[Pilot[Any]], Any]:
    async def press(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        pilot.app.query_one(Transcript).focus()
        await pilot.press(*names)

    return press


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", APPS)
def test_looks(snap_compare: Compare, name: str, size: tuple[int, int]) -> None:
    assert snap_compare(APPS[name](), terminal_size=size, run_before=settled)


def test_top_of_a_long_answer(snap_compare: Compare) -> None:
    assert snap_compare(APPS["rich"](), terminal_size=(80, 24), run_before=keys("home"))


def test_thinking_open(snap_compare: Compare) -> None:
    async def unfold(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        pilot.app.query_one(Transcript).toggle_thinking()
        await keys("home")(pilot)

    assert snap_compare(APPS["rich"](), terminal_size=(80, 24), run_before=unfold)


def test_a_selected_message(snap_compare: Compare) -> None:
    assert snap_compare(APPS["later"](), terminal_size=(120, 40), run_before=keys("alt+up"))


@pytest.mark.parametrize("theme", ["light", "high-contrast"])
def test_other_themes(snap_compare: Compare, theme: str) -> None:
    app = TalkApp(QUESTION, ANSWER, *LATER, notices=NOTICES, seen_from=2, theme=theme)
    assert snap_compare(app, terminal_size=(100, 66), run_before=settled)


def test_without_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(APPS["later"](), terminal_size=(100, 66), run_before=keys("alt+up"))
