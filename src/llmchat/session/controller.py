"""The session: what the UI and the command line call, and the only writer of ``SessionState``."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from llmchat.domain.chat import Chat, Sampling, Turn
from llmchat.domain.plan import Plan, Ranking, Request
from llmchat.errors import InternalError, LlmchatError, UsageError
from llmchat.session import chatting
from llmchat.session.engine_host import EngineHost
from llmchat.session.keeper import Keeper
from llmchat.session.loading import Loader
from llmchat.session.machine import Machine, read_profile
from llmchat.session.options import SessionOptions
from llmchat.session.replying import Question, Replier
from llmchat.session.state import HubAccount, ModelRef, Phase, SessionState
from llmchat.session.store import Listener, Store
from llmchat.session.threads import in_thread
from llmchat.session.watching import MemoryWatch, Samples

if TYPE_CHECKING:
    from llmchat.session.settings import Settings

__all__ = ["Listener", "Session"]


class Session:
    """One engine, one chat. All methods are called on the event loop's thread; none blocks it.

    Methods that take long (``open``, ``load``, ``send``) start a task and return at once; what comes of it is
    seen in ``state``. An error becomes ``state.problem``; nothing is raised at the UI, but where a method says it.
    """

    def __init__(self, options: SessionOptions = SessionOptions()) -> None:  # noqa: B008 - frozen
        self._options = options
        self._store = Store()
        self._keeper = Keeper(options.keep, lambda text: self._store.notice(text, "warning"))
        extra = ("--fake", str(options.fake)) if options.fake else ()
        self._engine = EngineHost(self._store, extra, lambda error: self._loader.engine_died(error))
        self._machine = Machine(self._engine, options.hardware, options.fake)
        self._replier = Replier(self._store, self._engine, self._keeper, lambda: self.sampling)
        self._loader = Loader(self._store, self._engine, self._machine, self._keeper, self._replier)
        self._loader.request, self._loader.autoload = options.request, options.autoload
        self._loader.on_loaded = self._loaded
        self._watch = MemoryWatch(self._store, self._engine, self._make_sampler)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._changing = False
        self.settings: Settings | None = None
        """As read by ``start``."""
        self.sampling = options.sampling or Sampling()
        """In force for the next reply."""
        self.system = options.system
        """System prompt of the chat, and of new ones."""

    # --- state -----------------------------------------------------------------------------------------------
    @property
    def state(self) -> SessionState:
        return self._store.state

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` after every change of state; returns the function that ends it."""
        return self._store.subscribe(listener)

    def changes(self) -> AsyncIterator[SessionState]:
        """The state now and after changes, the newest at each step."""
        return self._store.changes()

    async def wait_ready(self) -> SessionState:
        """Wait until a model answers. Raises the LlmchatError that came instead."""
        state = await self._store.wait(lambda s: s.phase is Phase.READY or (not s.busy and s.problem is not None))
        return _or_problem(state)

    async def wait_reply(self) -> Turn:
        """Wait for the end of the reply under way. Raises what it failed with, also when a part of it is kept."""
        await self._replier.ended()
        state = _or_problem(self.state)
        if not state.chat or not state.chat.turns or state.chat.turns[-1].role != "assistant":
            raise UsageError("No reply", "Nothing was answered.")
        return state.chat.turns[-1]

    async def wait_ranking(self) -> Ranking:
        """Wait for the plans of the model being opened; also a ranking in which nothing fits."""
        state = await self._store.wait(lambda s: s.ranking is not None or (not s.busy and s.problem is not None))
        return state.ranking or _or_problem(state).ranking or Ranking(proposals=(), best=None, why="")

    # --- life ------------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Spawn the engine (it imports torch meanwhile), probe the machine, list the models. Returns once the
        engine is spawned and the settings are read."""
        if self._options.autoload:
            try:
                await self._engine.ensure()
            except LlmchatError as error:
                self._store.fail(error)
        await self._read_settings()
        if self._options.autoload:
            self._watch.start()
            self._background(self._look_at_machine())
        if self._options.keep:
            self._background(self._list_models())
            self._background(self._ask_account())

    async def close(self) -> None:
        """Save, end the engine, and wait for it. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._watch.stop()
        for task in tuple(self._tasks):
            task.cancel()
        await self._loader.close()
        await self._replier.finish(2.0)
        await self._engine.close()
        await self._replier.ended()
        await self._keeper.save(self.state.chat)
        await self._keeper.close()

    # --- the model -------------------------------------------------------------------------------------------
    def open(self, model: str | ModelRef, revision: str = "") -> None:
        """Resolve, fetch if needed, inspect, plan, and load the best plan."""
        self._loader.open(model, revision or self._options.revision)

    def load(self, plan: Plan) -> None:
        """Load this plan; with another one loaded this is a switch, and the chat goes on."""
        self._loader.load(plan)

    def reload(self) -> None:
        """Start a new engine and load the last plan again (after a death)."""
        self._loader.reload()

    def replan(self, request: Request) -> Ranking | None:
        """Plan anew for the open model with what will be free once the loaded plan is gone."""
        from llmchat.domain import planner

        opened, hardware = self._loader.opened, self.state.hardware
        if opened is None or hardware is None:
            return None
        try:
            ranking = planner.rank(opened.facts, self._machine.replanning(hardware, self.state.memory), request)
        except LlmchatError as error:
            self._store.fail(error)
            return None
        self._loader.request = request
        self._store.update(ranking=ranking)
        return ranking

    @property
    def request(self) -> Request:
        """What plans are made for."""
        return self._loader.request

    # --- the chat --------------------------------------------------------------------------------------------
    def send(self, text: str) -> None:
        """Answer this message. When nothing can be answered now, the text comes back in ``state.draft``."""
        if not text.strip():
            return
        if not self._can_answer(text):
            return
        before = self.state.chat or chatting.new_chat(self.system)
        self._replier.ask(Question(chat=chatting.asked(before, text), before=before, draft=text))

    def regenerate(self) -> None:
        """Answer the last user message again."""
        before = self.state.chat
        chat = chatting.until_last_question(before) if before else None
        if before and chat and self._can_answer():
            self._replier.ask(Question(chat=chat, before=before))

    def edit(self, turn_id: str, text: str) -> None:
        """Replace this user message, drop what came after it, and answer."""
        before = self.state.chat
        chat = chatting.edited(before, turn_id, text) if before and text.strip() else None
        if before and chat and self._can_answer(text):
            self._replier.ask(Question(chat=chat, before=before, draft=text))

    def stop(self) -> bool:
        """Esc: stop the reply, else the load or download. False when nothing was running."""
        if self._loader.stop():
            return True
        if self._replier.active:
            self._replier.stop()
            return True
        return False

    def new_chat(self) -> None:
        """An empty chat; a reply under way is stopped, and its part is kept in the chat it belongs to."""
        self._change_chat(chatting.new_chat(self.system))

    def chats(self, query: str = "") -> Sequence[Chat]:
        """Saved chats, newest first, without their turns."""
        try:
            return self._keeper.chats(query)
        except LlmchatError as error:
            self._store.fail(error)
            return ()

    def resume(self, chat_id: str) -> None:
        """Go on with a saved chat; a last message that nobody answered comes back in ``state.draft``."""
        try:
            chat, draft = chatting.without_open_question(self._keeper.get(chat_id))
        except LlmchatError as error:
            self._store.fail(error)
            return
        self._change_chat(chat, draft)

    def delete_chat(self, chat_id: str) -> None:
        try:
            self._keeper.delete(chat_id)
        except LlmchatError as error:
            self._store.fail(error)
            return
        if self.state.chat and self.state.chat.id == chat_id:
            self._change_chat(chatting.new_chat(self.system), forget=chat_id)

    def restore_chat(self, chat_id: str) -> None:
        """Undo ``delete_chat``."""
        try:
            self._keeper.restore(chat_id)
        except LlmchatError as error:
            self._store.fail(error)

    def export(self, path: Path | None = None) -> Path:
        """Write the chat as Markdown with model, strategy, hardware and speed; returns where. Without a path: into
        the current folder. Raises UsageError for an empty chat, StorageError when it cannot be written."""
        from llmchat.session import export

        chat = self.state.chat
        if chat is None or not chat.turns:
            raise UsageError("Nothing to export", "The chat is empty.")
        target = path or Path.cwd() / f"llmchat-{chatting.file_stem(chat)}.md"
        export.write(target, export.markdown(chat, self.state))
        return target

    def set_sampling(self, sampling: Sampling) -> None:
        """For the next reply on."""
        self.sampling = sampling

    def set_system(self, text: str) -> None:
        """Of this chat, from the next reply on, and of new ones."""
        self.system = text
        if self.state.chat:
            self._store.update(chat=replace(self.state.chat, system=text))
            if not self._replier.active:
                self._background(self._keeper.save(self.state.chat))

    # --- the hub ---------------------------------------------------------------------------------------------
    async def login(self, token: str) -> HubAccount:
        """Check the token with the hub and store it. Raises AccessError or OfflineError."""
        from llmchat.session import hub

        account = await in_thread(hub.login, token)
        self._store.update(account=account)
        return account

    async def logout(self) -> HubAccount:
        from llmchat.session import hub

        account = await in_thread(hub.logout)
        self._store.update(account=account)
        return account

    # --- the rest --------------------------------------------------------------------------------------------
    def dismiss(self) -> None:
        """The problem was read."""
        self._store.update(problem=None)

    def take_draft(self) -> str:
        """The text that was given back to the composer; clears it."""
        draft = self.state.draft
        if draft:
            self._store.update(draft="")
        return draft

    def log_tail(self, lines: int = 200) -> str:
        """The end of the engine's log."""
        return self._engine.log_tail(lines)

    # --- inside ----------------------------------------------------------------------------------------------
    def _can_answer(self, draft: str = "") -> bool:
        """Else says why, and gives the text back."""
        state = self.state
        if state.phase is Phase.READY and not self._changing:
            return True
        if state.phase is Phase.GENERATING or self._changing:
            error = UsageError("Still answering", "The reply before is not finished.", "Esc stops it.")
        elif state.busy:
            error = UsageError("Not ready yet", "The model is being loaded.", "Send it again in a moment.")
        else:
            error = UsageError("No model is loaded", "Nobody is there to answer.", "F3 lists the models.")
        self._store.fail(error, draft=draft or state.draft)
        return False

    def _change_chat(self, chat: Chat, draft: str = "", forget: str = "") -> None:
        """At once, or when the reply under way has ended. ``forget``: a deleted chat that its end saves anew."""
        if self._replier.active:
            self._changing = True
            self._background(self._change_chat_later(chat, draft, forget))
            return
        self.system = chat.system
        self._store.update(chat=chat, notices=(), seen_from=0, draft=draft or self.state.draft)

    async def _change_chat_later(self, chat: Chat, draft: str, forget: str) -> None:
        try:
            await self._replier.finish(5.0)
            if self._replier.active:
                self._engine.kill()
                await self._replier.ended()
            if forget:
                await self._keeper.forget(forget)
            self._change_chat(chat, draft)
        finally:
            self._changing = False

    async def _read_settings(self) -> None:
        from llmchat.session import settings

        try:
            self.settings = found = await in_thread(settings.load)
        except LlmchatError as error:
            self._store.fail(error)
            return
        request, given, default = self._loader.request, self._options.request, Request()
        if given.prefer == default.prefer:
            request = replace(request, prefer=found.prefer)
        if given.comfortable == default.comfortable:
            request = replace(request, comfortable=found.comfortable)
        self._loader.request = request
        self.sampling = self._options.sampling or found.sampling
        self.system = self._options.system or found.system

    async def _look_at_machine(self) -> None:
        try:
            hardware = await self._machine.profile()
        except LlmchatError as error:
            self._store.fail(error)
            return
        if self.state.hardware is None:
            self._store.update(hardware=hardware)

    def _loaded(self) -> None:
        """What was fetched or converted is here now."""
        if self._options.keep:
            self._background(self._list_models())

    async def _list_models(self) -> None:
        from llmchat.session import catalog

        settings = self.settings
        if settings is not None:
            self._store.update(models=await in_thread(catalog.models, settings))

    async def _ask_account(self) -> None:
        from llmchat.session import hub

        with contextlib.suppress(LlmchatError):
            self._store.update(account=await in_thread(hub.account))

    def _make_sampler(self) -> Samples:
        """In the sampling thread."""
        from llmchat.session import sampler

        if self._options.fake:
            return sampler.FakeSampler(read_profile(self._options.fake))
        return sampler.Sampler()

    def _background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            detail = "".join(traceback.format_exception(error))
            self._store.fail(InternalError("Something went wrong", f"{error!r}", detail=detail))


def _or_problem(state: SessionState) -> SessionState:
    if state.problem is not None:
        raise LlmchatError.from_problem(state.problem)
    return state
