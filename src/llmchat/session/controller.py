"""The session: what the UI and the command line call, and the only writer of ``SessionState``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from llmchat.domain.chat import Chat, Sampling, Turn
from llmchat.domain.plan import Plan, Ranking, Request
from llmchat.errors import LlmchatError, UsageError
from llmchat.session import chatting
from llmchat.session.background import Background
from llmchat.session.chats import Chats
from llmchat.session.experience import Experience
from llmchat.session.hardware.machine import Machine
from llmchat.session.loading import Loader
from llmchat.session.options import SessionOptions
from llmchat.session.process.engine_host import EngineHost
from llmchat.session.replying import Question, Replier
from llmchat.session.saved.keeper import Keeper
from llmchat.session.state import HubAccount, ModelRef, Phase, SessionState
from llmchat.session.store import Listener, Store
from llmchat.session.surroundings import Surroundings
from llmchat.session.watching import MemoryWatch

if TYPE_CHECKING:
    from llmchat.session.saved.settings import Settings

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
        self._store.log = self._engine.log
        self._machine = Machine(self._engine, options.hardware, options.fake)
        self._replier = Replier(self._store, self._engine, self._keeper, lambda: self.sampling)
        self._experience = Experience(keep=self._machine.real)
        self._replier.on_stats = lambda stats: self._background.begin(self._experience.replied(stats))
        self._loader = Loader(
            self._store, self._engine, self._machine, self._keeper, self._replier, self._experience
        )
        self._loader.request, self._loader.autoload = options.request, options.autoload
        self._loader.on_loaded = self._loaded
        self._around = Surroundings(self._store, self._machine, options)
        self._background = Background(self._store)
        self._chats = Chats(self._store, self._keeper, self._replier, self._engine, self._background)
        self._chats.system = options.system
        self._watch = MemoryWatch(self._store, self._engine, self._around.sampler)
        self._closed = False
        self.sampling = options.sampling or Sampling()
        """In force for the next reply."""

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

    @property
    def settings(self) -> Settings | None:
        """As read by ``start``; None when they cannot be read."""
        return self._around.settings

    @property
    def request(self) -> Request:
        """What plans are made for."""
        return self._loader.request

    @property
    def system(self) -> str:
        """System prompt of the chat, and of new ones."""
        return self._chats.system

    # --- life ------------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Spawn the engine (it imports torch meanwhile), probe the machine, list the models. Returns once the
        engine is spawned and the settings are read."""
        if self._options.autoload:
            try:
                await self._engine.ensure()
            except LlmchatError as error:
                self._store.fail(error)
        await self._around.read_settings()
        self._loader.request = self._around.request()
        self.sampling, self._chats.system = self._around.sampling(), self._around.system()
        if self._options.autoload:
            self._watch.start()
            self._background.begin(self._around.look_at_machine())
        if self._options.keep:
            self._background.begin(self._around.list_models())
            self._background.begin(self._around.ask_account())

    async def close(self) -> None:
        """Save, end the engine, and wait for it. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._watch.stop()
        self._background.cancel()
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
            self._loader.request = request
            return None
        try:
            runs = self._experience.of_now(opened.facts, hardware)
            now = self._machine.replanning(hardware, self.state.memory)
            ranking = planner.rank(opened.facts, now, request, runs)
        except LlmchatError as error:
            self._store.fail(error)
            return None
        self._loader.request = request
        self._store.update(ranking=ranking)
        return ranking

    # --- the chat --------------------------------------------------------------------------------------------
    def send(self, text: str) -> None:
        """Answer this message. When nothing can be answered now, the text comes back in ``state.draft``."""
        if text.strip() and self._can_answer(text):
            before = self._chats.current()
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
        self._chats.new()

    def chats(self, query: str = "") -> Sequence[Chat]:
        """Saved chats, newest first, without their turns."""
        return self._chats.found(query)

    def resume(self, chat_id: str) -> None:
        """Go on with a saved chat; a last message that nobody answered comes back in ``state.draft``."""
        self._chats.resume(chat_id)

    def delete_chat(self, chat_id: str) -> None:
        self._chats.delete(chat_id)

    def restore_chat(self, chat_id: str) -> None:
        """Undo ``delete_chat``."""
        self._chats.restore(chat_id)

    def export(self, path: Path | None = None) -> Path:
        """Write the chat as Markdown with model, strategy, hardware and speed; returns where. Without a path: into
        the current folder. Raises UsageError for an empty chat, StorageError when it cannot be written."""
        return self._chats.export(path)

    def set_sampling(self, sampling: Sampling) -> None:
        """For the next reply on."""
        self.sampling = sampling

    def set_folders(self, folders: Sequence[str]) -> None:
        """Where models are looked for besides the hub's cache; they are listed anew."""
        if self._around.settings:
            self._around.settings = replace(self._around.settings, model_folders=tuple(folders))
            self._background.begin(self._around.list_models())

    def set_system(self, text: str) -> None:
        """Of this chat, from the next reply on, and of new ones."""
        self._chats.set_system(text)

    # --- the hub ---------------------------------------------------------------------------------------------
    async def login(self, token: str) -> HubAccount:
        """Check the token with the hub and store it. Raises AccessError or OfflineError."""
        return await self._around.login(token)

    async def logout(self) -> HubAccount:
        return await self._around.logout()

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
        if state.phase is Phase.READY and not self._chats.changing:
            return True
        if state.phase is Phase.GENERATING or self._chats.changing:
            error = UsageError("Still answering", "The reply before is not finished.", "Esc stops it.")
        elif state.busy:
            error = UsageError("Not ready yet", "The model is being loaded.", "Send it again in a moment.")
        else:
            error = UsageError("No model is loaded", "Nobody is there to answer.", "F3 lists the models.")
        self._store.fail(error, draft=draft or state.draft)
        return False

    def _loaded(self) -> None:
        """What was fetched or converted is here now."""
        if self._options.keep:
            self._background.begin(self._around.list_models())


def _or_problem(state: SessionState) -> SessionState:
    if state.problem is not None:
        raise LlmchatError.from_problem(state.problem)
    return state
