"""Opening a model, loading a plan, switching: each a transaction that ends in a model that answers, or goes back.

One job at a time. A new one cancels the present one without going back first: of two switches the last wins, and
what the last goes back to is still the model that was last proven.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import CPU, GIB, Account, gib
from llmchat.domain.plan import Plan, Ranking, Request
from llmchat.domain.words import at
from llmchat.errors import EngineDied, EngineKilled, LlmchatError, OutOfMemory, UsageError
from llmchat.protocol import Load, Loaded
from llmchat.session.experience import Experience
from llmchat.session.hardware.machine import Machine
from llmchat.session.preparing import Opened, Preparer, chosen, lighter, rank, unfit
from llmchat.session.process.engine_host import EngineHost
from llmchat.session.replying import Replier
from llmchat.session.saved.keeper import Keeper
from llmchat.session.state import ModelRef, Phase
from llmchat.session.store import Store
from llmchat.session.unexpected import unexpected

STOP_SECONDS = 3.0
"""For a reply to stop before its engine is ended with it."""


MISSED = GIB
"""Bytes that may be missing after an engine ended without a word about it."""


NOT_MEASURED = {"measured": None, "measured_speed": None, "measured_first": None, "measured_first_tokens": 0}
"""Of the state, before the plan that is loaded next has shown anything."""


class Working(msgspec.Struct, frozen=True, kw_only=True):
    """A model that was loaded and proven."""

    opened: Opened
    ranking: Ranking
    plan: Plan
    measured: dict[str, Account]
    seconds: float


class Loader:
    def __init__(
        self,
        store: Store,
        engine: EngineHost,
        machine: Machine,
        keeper: Keeper,
        replier: Replier,
        experience: Experience,
    ) -> None:
        self._store, self._engine, self._machine = store, engine, machine
        self._keeper, self._replier, self._experience = keeper, replier, experience
        self._preparer = Preparer(engine, store.step, fake=machine.fake)
        self._job: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._going_back = False
        self.request = Request()
        self.autoload = True
        self.on_loaded: Callable[[], None] = lambda: None
        """Called after a model was loaded by wish."""
        self.opened: Opened | None = None
        """The model that F4 plans for."""
        self._working: Working | None = None
        """What to go back to."""
        self._held: Working | None = None
        """What the present engine process holds."""
        self._last: Plan | None = None
        self._opening = False
        """The present job, or the last one, opens a model rather than loads a plan of the open one."""

    @property
    def busy(self) -> bool:
        return self._job is not None and not self._job.done()

    # --- what the session calls ------------------------------------------------------------------------------
    def open(self, model: str | ModelRef, revision: str) -> None:
        self._opening = True
        name = model if isinstance(model, str) else model.title
        self._begin(Phase.PREPARING, f"Looking for {name}", lambda: self._open(model, revision))

    def load(self, plan: Plan) -> None:
        opened = self.opened
        if opened is None:
            self._store.fail(UsageError("No model", "Choose a model before a strategy.", "F3 lists the models."))
            return
        self._opening = False
        phase = Phase.SWITCHING if self._engine.used else Phase.LOADING
        self._begin(phase, f"Preparing {plan.label}", lambda: self._load(opened, plan))

    def reload(self) -> None:
        opened = self.opened
        if opened is None:
            self._store.fail(UsageError("No model", "There is no model to load again.", "F3 lists the models."))
            return
        self._opening = False
        plan = self._last
        self._begin(Phase.LOADING, "Starting a new engine", lambda: self._load(opened, plan))

    def stop(self) -> bool:
        """Esc: go back to what worked before this job; while going back already, leave it unloaded."""
        if not self.busy:
            return False
        work = self._give_up if self._going_back else self._go_back_by_choice
        self._begin(self._store.state.phase, "Stopping", work)
        return True

    def engine_died(self, error: EngineDied) -> None:
        """Outside of any job or reply: those meet the error themselves."""
        self._held = None
        if self.busy or self._replier.active:
            return
        self._working = None
        phase = Phase.FAILED if self._store.state.model else Phase.IDLE
        self._store.fail(error, phase=phase, measured=None, step=None)

    async def close(self) -> None:
        """Cancel what is going on; nothing is gone back to."""
        if self._job and not self._job.done():
            self._job.cancel()
            await asyncio.wait([self._job])

    # --- jobs ------------------------------------------------------------------------------------------------
    def _begin(self, phase: Phase, stage: str, work: Callable[[], Awaitable[None]]) -> None:
        if self._job:
            self._job.cancel()
        self._store.update(phase=phase, problem=None)
        self._store.step(stage)
        self._job = asyncio.create_task(self._run(work), name="loader")

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        async with self._turn:  # the job before has been cancelled and is winding up
            try:
                try:
                    await work()
                except LlmchatError as error:
                    await self._failed(error)
            except Exception as error:
                self._store.fail(unexpected("Loading failed", error), phase=Phase.FAILED, step=None)
            finally:
                self._going_back = False

    async def _open(self, model: str | ModelRef, revision: str) -> None:
        await self._end_reply()
        ref = await self._preparer.resolve(model, revision) if isinstance(model, str) else model
        self._store.update(model=ref, facts=None, ranking=None, plan=None, load_seconds=None, **NOT_MEASURED)
        self.opened = None
        opened = await self._preparer.open(ref)
        ranking = await self._rank(opened, self.request)
        self.opened, self._last = opened, None
        self._store.update(facts=opened.facts, ranking=ranking)
        if ranking.best is None:
            raise unfit(ranking)
        if not self.autoload:
            self._store.update(phase=Phase.FAILED, step=None)
            return
        self.opened = opened = await self._preparer.fetch_weights(opened)
        await self._load(opened, None)

    async def _load(self, opened: Opened, wanted: Plan | None) -> None:
        """The best plan, or what fits now of the wanted strategy, precision and context."""
        await self._end_reply()
        before = self._working
        self._last = wanted or self._last
        self.opened = opened = await self._preparer.fetch_weights(opened)
        if self._engine.used:
            plan, _ = await self._planned(opened, wanted)  # what cannot fit is not worth ending the engine for
            self._store.update(plan=plan)
            await self._fresh_engine()
        await self._engine_ready()
        plan, ranking = await self._planned(opened, wanted)
        self._last = plan
        try:
            working = await self._load_plan(opened, plan, ranking)
        except (OutOfMemory, EngineKilled) as error:
            if wanted is not None:
                raise
            working = await self._load_lighter(opened, plan, error)
        self._working = working
        if before is not None:
            self._store.notice(_switched(working))
        self._show(working)
        self.on_loaded()

    async def _load_lighter(self, opened: Opened, failed: Plan, error: OutOfMemory | EngineKilled) -> Working:
        """The best plan that needs less where ``failed`` ran out of memory: tried once, and said aloud."""
        short = _short(failed, error)
        await self._fresh_engine()
        await self._engine_ready()
        ranking = await self._rank(opened, self.request)
        plan = lighter(ranking, failed, self.request, short)
        if plan is None:
            raise error
        trying = plan.label if plan.label != failed.label else f"it with less {at(short)}"
        self._store.notice(f"{failed.label} ran out of memory: {error.message} Trying {trying}.", "warning")
        self._last = plan
        return await self._load_plan(opened, plan, ranking)

    async def _planned(self, opened: Opened, wanted: Plan | None) -> tuple[Plan, Ranking]:
        """Raises FitError."""
        request = replace(self.request, context=wanted.context) if wanted else self.request
        ranking = await self._rank(opened, request)
        return chosen(ranking, wanted), ranking

    async def _rank(self, opened: Opened, request: Request) -> Ranking:
        """For the machine as the next engine finds it, with what earlier runs taught."""
        hardware = await self._hardware(opened)
        return await rank(opened.facts, hardware, request, await self._experience.of(opened.facts, hardware))

    async def _engine_ready(self) -> None:
        self._store.step("Starting the engine")
        await self._engine.wait_ready()

    async def _fresh_engine(self) -> None:
        """End the engine and start one without a model, on a machine that has its memory back."""
        self._store.update(phase=Phase.SWITCHING)
        self._store.step("Ending the engine")
        await self._keeper.save(self._store.state.chat)
        expected = await self._machine.profile(self._held.measured if self._held else None)
        self._held = None
        await self._engine.renew()
        self._store.update(load_seconds=None, **NOT_MEASURED)
        self._store.step("Waiting for the memory to be given back")
        missing = await self._machine.settle(expected)
        if missing > MISSED:
            self._store.notice(f"{gib(missing)} of GPU memory did not come back from the ended engine.", "warning")

    async def _load_plan(self, opened: Opened, plan: Plan, ranking: Ranking) -> Working:
        self._store.update(
            phase=Phase.LOADING,
            model=opened.ref,
            facts=opened.facts,
            plan=plan,
            ranking=ranking,
            **NOT_MEASURED,
        )
        self._store.step(f"Loading {plan.label}")
        self._engine.used = True
        command = Load(id=0, path=str(opened.folder), plan=plan, facts=opened.facts)
        hardware = self._store.state.hardware
        try:
            loaded = await self._engine.run(command, Loaded, self._preparer.progress)
        except (OutOfMemory, EngineKilled) as error:
            if hardware is not None:
                await self._experience.ran_out(opened.facts, hardware, plan, _short(plan, error))
            raise
        self._held = working = Working(
            opened=opened, ranking=ranking, plan=plan, measured=loaded.devices, seconds=loaded.seconds
        )
        for note in loaded.notes:
            self._store.notice(note, "warning")
        if hardware is not None:
            await self._experience.loaded(opened.facts, hardware, plan, loaded.devices, again=self._going_back)
        return working

    def _show(self, working: Working) -> None:
        self.opened = working.opened
        self._store.update(
            phase=Phase.READY,
            step=None,
            model=working.opened.ref,
            facts=working.opened.facts,
            ranking=working.ranking,
            plan=working.plan,
            measured=working.measured,
            load_seconds=working.seconds,
        )

    async def _hardware(self, opened: Opened) -> HardwareProfile:
        """The machine as the next engine finds it, with bandwidths; measuring them may fail, planning goes on."""
        held = self._held.measured if self._held else None
        hardware = await self._machine.profile(held)
        try:
            hardware = await self._machine.calibrated(hardware, opened.folder, self._preparer.progress)
        except EngineDied:
            raise
        except LlmchatError as error:
            self._store.notice(
                f"Speeds are guessed: the machine could not be measured ({error.message})", "warning"
            )
        self._store.update(hardware=hardware)
        return hardware

    async def _end_reply(self) -> None:
        """Stop the reply and keep its part, if need be with the engine's end."""
        await self._replier.finish(STOP_SECONDS)
        if self._replier.active:
            self._held = None
            await self._engine.renew()
            await self._replier.ended()

    # --- going back ------------------------------------------------------------------------------------------
    async def _failed(self, error: LlmchatError) -> None:
        tried = self._last
        if await self._go_back():
            working = self._working
            assert working is not None
            what = f"{tried.label}: " if tried and not self._opening else ""
            self._store.notice(f"{what}{error.title}. Back on {working.plan.label}.", "warning")
            self._store.fail(error)
        else:
            await self._unload()
            self._store.fail(error)

    async def _go_back_by_choice(self) -> None:
        if not await self._go_back():
            await self._give_up()

    async def _go_back(self) -> bool:
        """To the model that worked; True when it answers again. False when there is none or it fails too."""
        working = self._working
        if working is None:
            return False
        self._last = working.plan
        if self._held is working and self._engine.alive:
            self._show(working)
            return True
        self._going_back = True
        try:
            if self._engine.used:
                await self._fresh_engine()
            await self._engine_ready()
            self._working = back = await self._load_plan(working.opened, working.plan, working.ranking)
        except LlmchatError as error:
            self._working = None
            self._store.notice(f"Going back to {working.plan.label} failed: {error.message}", "error")
            return False
        self._show(back)
        return True

    async def _give_up(self) -> None:
        """By the person's wish: back to the picker, or to the open model that is not loaded."""
        await self._end_reply()
        if self._opening:
            self.opened = None
        await self._unload()

    async def _unload(self) -> None:
        """Leave no model loaded, and an engine process that is clean for the next one, unless it died."""
        self._working = self._held = None
        if self._engine.used and self._engine.alive:
            await self._engine.renew()
        if self.opened is None:
            self._store.update(model=None, facts=None, ranking=None, plan=None)
        self._store.update(
            phase=Phase.FAILED if self.opened else Phase.IDLE,
            step=None,
            load_seconds=None,
            **NOT_MEASURED,
        )


def _short(plan: Plan, error: OutOfMemory | EngineKilled) -> str:
    """The device that ran out of memory: the system kills for want of RAM."""
    return CPU if isinstance(error, EngineKilled) else plan.main_device


def _switched(working: Working) -> str:
    """``Switched to cpu · 4bit in 3.1 s: measured 0.4 GiB in RAM (planned 0.5 GiB); planned is with ...``"""
    parts = [
        f"{gib(account.engine)} {at(device)} (planned {gib(planned.engine)})"
        if (planned := working.plan.devices.get(device))
        else f"{gib(account.engine)} {at(device)}"
        for device, account in working.measured.items()
        if account.engine
    ]
    measured = f": measured {', '.join(parts)}; planned is with a full context" if parts else ""
    return f"Switched to {working.plan.label} in {working.seconds:.1f} s{measured}."
