"""``llmchat ask MODEL PROMPT``: one answer on standard output, everything else on standard error."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from llmchat.commands import words
from llmchat.commands.options import Options
from llmchat.commands.running import on_interrupt, running, session_options
from llmchat.commands.stream import Progress, Stream
from llmchat.domain.chat import Turn
from llmchat.domain.speed.predict import PROMPT
from llmchat.errors import Cancelled, LlmchatError, UsageError
from llmchat.session.controller import Session
from llmchat.session.state import Phase, SessionState


def run(options: Options) -> int:
    """Raises LlmchatError; a part that came before one is on standard output already."""
    return asyncio.run(_ask(options, read_prompt(options.prompt)))


def read_prompt(parts: tuple[str, ...]) -> str:
    """The words joined by spaces, with standard input as a paragraph of its own where ``-`` stands."""
    texts: list[str] = []
    fresh = True
    for part in parts:
        if part == "-":
            texts.append(sys.stdin.buffer.read().decode(errors="replace").strip())
            fresh = True
        elif fresh:
            texts.append(part)
            fresh = False
        else:
            texts[-1] += f" {part}"
    prompt = "\n\n".join(text for text in texts if text.strip())
    if not prompt:
        raise UsageError(
            "Nothing to ask", "The prompt is empty.", 'Like llmchat ask smollm2 "Why is the sky blue?".'
        )
    return prompt


class Interrupt:
    """Ctrl+C: the first stops what runs and keeps what came, the second gives up."""

    def __init__(self, session: Session) -> None:
        self.happened = False
        self._session = session
        self._task = asyncio.current_task()

    def __call__(self) -> None:
        again, self.happened = self.happened, True
        generating = self._session.state.phase is Phase.GENERATING
        self._session.stop()
        if self._task and (again or not generating):
            self._task.cancel()


async def _ask(options: Options, prompt: str) -> int:
    assert options.model is not None
    async with running(session_options(options, keep=False)) as session:
        interrupt = Interrupt(session)
        with on_interrupt(interrupt), Progress() as progress:
            try:
                session.subscribe(progress.show)
                session.open(options.model)
                await session.wait_ready()
                return await _answer(session, options, prompt, progress)
            except (asyncio.CancelledError, LlmchatError) as error:
                if interrupt.happened:
                    raise Cancelled("Stopped", "There is no answer yet.") from error
                raise


async def _answer(session: Session, options: Options, prompt: str, progress: Progress) -> int:
    stream = Stream(quiet=options.json, on_broken=session.stop)
    session.subscribe(lambda state: stream.show(state.reply.answer) if state.reply else None)
    session.send(prompt)
    failure: LlmchatError | None = None
    try:
        await session.wait_reply()
    except LlmchatError as error:
        failure = error
    progress.clear()
    turn = _last_answer(session.state)
    if turn is not None:
        stream.end(turn.content)
        if options.json:
            stream.write(words.pretty(report(session.state, turn)) + "\n")
        sys.stderr.write(words.statistics(session.state, turn) + "\n")
    if stream.broken:
        raise BrokenPipeError
    if failure is not None:
        raise failure
    return Cancelled.exit_code if turn and turn.stats and turn.stats.reason == "stopped" else 0


def _last_answer(state: SessionState) -> Turn | None:
    """The reply, or the part of it that came; None when nothing came."""
    turns = state.chat.turns if state.chat else ()
    return turns[-1] if turns and turns[-1].role == "assistant" else None


def report(state: SessionState, turn: Turn) -> dict[str, Any]:
    """What ``--json`` prints."""
    stats = turn.stats
    return {
        "answer": turn.content,
        "thinking": turn.thinking,
        "model": state.model.id if state.model else "",
        "revision": state.facts.revision if state.facts else "",
        "reason": stats.reason if stats else None,
        "tokens": stats.tokens if stats else None,
        "prompt_tokens": stats.prompt_tokens if stats else None,
        "tokens_per_second": stats.tokens_per_second if stats else None,
        "time_to_first_token": stats.time_to_first_token if stats else None,
        "seconds": stats.seconds if stats else None,
        "load_seconds": state.load_seconds,
        "plan": None
        if state.plan is None
        else {
            "label": state.plan.label,
            "strategy": state.plan.strategy,
            "precision": state.plan.precision,
            "context": state.plan.context,
            "tokens_per_second": state.plan.tokens_per_second,
            "full_tokens_per_second": state.plan.full_tokens_per_second,
            "time_to_first_token": state.plan.time_to_first_token,
            "first_token_prompt": PROMPT,
        },
        "measured": {
            "tokens_per_second": state.measured_speed,
            "time_to_first_token": state.measured_first,
            "first_token_prompt": state.measured_first_tokens or None,
        },
        "memory": {
            "planned": words.held(state.plan.devices if state.plan else {}),
            "measured": words.held(state.measured or {}),
        },
        "notices": [notice.text for notice in state.notices],
        "problem": state.problem,
    }
