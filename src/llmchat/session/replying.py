"""One reply: sent, streamed into the state, stopped, kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from llmchat.domain.chat import Chat, ReplyStats, Sampling, StopReason, Turn
from llmchat.errors import Cancelled, EngineDied, LlmchatError
from llmchat.protocol import AnyEvent, Delta, Failed, Finished, Generate, Progress, Started
from llmchat.session import chatting
from llmchat.session.process.client import Running
from llmchat.session.process.engine_host import EngineHost
from llmchat.session.saved.keeper import Keeper
from llmchat.session.state import Notice, Phase, Reply, SessionState
from llmchat.session.store import Store
from llmchat.session.unexpected import unexpected

FRAME = 1 / 30
"""Seconds between two states of a streaming reply, at least."""
TELLING = 8
"""Tokens of a reply below which its speed says nothing."""


READ = 64
"""Tokens of a prompt to be read below which the time to the first token says nothing."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, and what to go back to when nothing comes of it."""

    chat: Chat
    before: Chat
    draft: str = ""


class Replier:
    def __init__(self, store: Store, engine: EngineHost, keeper: Keeper, sampling: Callable[[], Sampling]) -> None:
        self._store, self._engine, self._keeper, self._sampling = store, engine, keeper, sampling
        self._task: asyncio.Task[None] | None = None
        self._running: Running | None = None
        self._stopping = False
        self._answer: list[str] = []
        self._thinking: list[str] = []
        self._tokens = 0
        self._frame: asyncio.TimerHandle | None = None
        self._last_frame = 0.0
        self.on_stats: Callable[[ReplyStats], None] = lambda stats: None
        """Called after a reply that was long enough to tell its speed."""

    @property
    def active(self) -> bool:
        return self._task is not None and not self._task.done()

    def ask(self, question: Question) -> None:
        """Start answering; the state goes to GENERATING at once."""
        loop = asyncio.get_running_loop()
        state = self._store.state
        plan, model = state.plan, state.model
        chat = replace(
            question.chat,
            model=model.name if model else "",
            strategy=plan.strategy if plan else "",
            precision=str(plan.precision) if plan else "",
        )
        self._answer, self._thinking, self._tokens, self._stopping = [], [], 0, False
        self._last_frame = 0.0
        notices = tuple(n for n in state.notices if n.after <= len(chat.turns))
        reply = Reply(turn_id=chatting.new_id(), started=loop.time())
        self._store.update(
            phase=Phase.GENERATING, chat=chat, reply=reply, notices=notices, problem=None, draft="", step=None
        )
        self._task = asyncio.create_task(self._answering(replace(question, chat=chat)), name="reply")

    def stop(self) -> None:
        """Keep the part that came. An engine that hangs is ended, for it would not hear."""
        self._stopping = True
        if self._engine.hanging:
            self._engine.kill()
        elif self._running:
            self._running.stop()

    async def finish(self, seconds: float) -> None:
        """Stop and wait until the part is kept and saved. An engine that does not obey is left to be ended."""
        if self._task and not self._task.done():
            self.stop()
            await asyncio.wait([self._task], timeout=seconds)

    async def ended(self) -> None:
        """Wait for the reply, without stopping it."""
        if self._task:
            await asyncio.wait([self._task])

    # --- the task --------------------------------------------------------------------------------------------
    async def _answering(self, question: Question) -> None:
        await self._keeper.save(question.chat)
        command = Generate(id=0, messages=question.chat.messages(), sampling=self._sampling())
        failure: LlmchatError | None = None
        stats: ReplyStats | None = None

        def heard(event: AnyEvent) -> None:
            nonlocal stats
            if isinstance(event, Failed | Finished):
                stats = event.stats
            else:
                self._heard(event)

        try:
            self._running = await self._engine.submit(command, heard)
            if self._stopping:
                self._running.stop()
            await self._running.result(Finished)
        except LlmchatError as error:
            failure = error
        except Exception as error:
            failure = unexpected("The reply failed", error)
        self._running = None
        await self._keep(question, stats, failure)

    async def _keep(self, question: Question, stats: ReplyStats | None, failure: LlmchatError | None) -> None:
        """Turn the reply into a turn of the chat, or take the question back when nothing came."""
        self._flush()
        state = self._store.state
        reply = state.reply
        assert reply is not None
        told, stats = stats, stats or self._own_stats(reply, failure)
        if state.chat and state.chat.id == question.chat.id:  # the system prompt may have been set meanwhile
            question = replace(question, chat=replace(question.chat, system=state.chat.system))
        came = bool(reply.answer or reply.thinking)
        if came or (failure is None and not self._stopping):
            turn = Turn(
                id=reply.turn_id,
                role="assistant",
                content=reply.answer,
                thinking=reply.thinking,
                created=question.chat.updated,
                model=question.chat.model,
                label=state.plan.label if state.plan else "",
                stats=stats,
            )
            chat, draft = chatting.answered(question.chat, turn), ""
        else:
            chat, draft = question.before, question.draft
        telling = stats if stats and stats.tokens >= TELLING else None
        notices = tuple(n for n in state.notices if n.after <= len(chat.turns))
        self._first_token(told)
        self._store.update(
            chat=chat,
            reply=None,
            draft=draft or state.draft,
            notices=notices,
            phase=_phase_after(state, failure),
            measured_speed=(telling.tokens_per_second if telling else None) or state.measured_speed,
            problem=state.problem if failure is None or isinstance(failure, Cancelled) else failure.problem,
        )
        if telling:
            self.on_stats(telling)
        if chat.turns:
            await self._keeper.save(chat)
        else:
            await self._keeper.forget(chat.id)

    def _first_token(self, told: ReplyStats | None) -> None:
        """Keep the time to it where enough of the prompt was read: the engine, who ``told``, knows how much."""
        read = told.prompt_tokens - told.reused_tokens if told and told.tokens else 0
        if told and read >= READ:
            self._store.update(measured_first=told.time_to_first_token, measured_first_tokens=read)

    def _own_stats(self, reply: Reply, failure: LlmchatError | None) -> ReplyStats | None:
        """For a part whose end the engine could not tell; None when no token came."""
        if reply.first_token is None:
            return None
        reason: StopReason = "stopped" if isinstance(failure, Cancelled) else "failed"
        return ReplyStats(
            prompt_tokens=reply.prompt_tokens or 0,
            tokens=reply.tokens,
            time_to_first_token=reply.first_token - reply.started,
            seconds=asyncio.get_running_loop().time() - reply.first_token,
            reason=reason,
        )

    # --- events ----------------------------------------------------------------------------------------------
    def _heard(self, event: AnyEvent) -> None:
        reply = self._store.state.reply
        if reply is None:
            return
        match event:
            case Started():
                self._started(event, reply)
            case Progress(done=done):
                self._store.update(reply=replace(reply, prefill_done=done))
            case Delta():
                (self._thinking if event.kind == "thinking" else self._answer).append(event.text)
                self._tokens = event.tokens
                self._draw_soon(reply)

    def _started(self, event: Started, reply: Reply) -> None:
        state = self._store.state
        turns = len(state.chat.turns) if state.chat else 0
        said = {notice.text for notice in state.notices}
        notes = [Notice(after=turns, text=note) for note in event.notes if note not in said]
        self._store.update(
            reply=replace(reply, prompt_tokens=event.prompt_tokens, prefill_done=event.reused_tokens),
            notices=(*state.notices, *notes),
            seen_from=event.seen_from,
        )

    def _draw_soon(self, reply: Reply) -> None:
        loop = asyncio.get_running_loop()
        wait = self._last_frame + FRAME - loop.time()
        if wait <= 0 or reply.first_token is None:
            self._flush()
        elif self._frame is None:
            self._frame = loop.call_later(wait, self._flush)

    def _flush(self) -> None:
        """Put the text that came since the last frame into the state: the reply only, the chat is untouched."""
        if self._frame is not None:
            self._frame.cancel()
            self._frame = None
        reply = self._store.state.reply
        if reply is None or not (self._answer or self._thinking or self._tokens != reply.tokens):
            return
        now = asyncio.get_running_loop().time()
        self._last_frame = now
        changed = replace(
            reply,
            answer=reply.answer + "".join(self._answer),
            thinking=reply.thinking + "".join(self._thinking),
            tokens=self._tokens,
            first_token=reply.first_token or now,
        )
        self._answer.clear()
        self._thinking.clear()
        self._store.update(reply=changed)


def _phase_after(state: SessionState, failure: LlmchatError | None) -> Phase:
    """A switch may have begun meanwhile: its phase stays."""
    if state.phase is not Phase.GENERATING:
        return state.phase
    return Phase.FAILED if isinstance(failure, EngineDied) else Phase.READY
