"""Plans against what came of them: every run is compared, kept, and counted when the next is planned."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from llmchat.domain.chat import ReplyStats
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.measured import GAP, SMALL, Lesson, Run, gaps, lesson
from llmchat.domain.memory import CPU, DISK, Account
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan
from llmchat.domain.speed.predict import PROMPT
from llmchat.session.threads import in_thread

ENOUGH = 32
"""Tokens of a reply below which its speed is no lesson: a moment in which the machine was busy counts too much."""
LONG = 4 * PROMPT
"""Tokens in the context beyond which a reply says nothing about the predicted speed: that is of a short one."""


class Experience:
    """``keep`` False, as with a made-up machine: nothing is known, and nothing is kept."""

    def __init__(self, keep: bool, clock: Callable[[], float] = time.time) -> None:
        self._keep, self._clock = keep, clock
        self._now: tuple[ModelFacts, HardwareProfile, Run] | None = None
        """The run under way."""
        self._plan: Plan | None = None
        """What it holds."""

    async def of(self, facts: ModelFacts, hardware: HardwareProfile) -> tuple[Run, ...]:
        """The earlier runs of this model on this machine."""
        if not self._keep:
            return ()
        return await in_thread(_load, facts, hardware)

    def of_now(self, facts: ModelFacts, hardware: HardwareProfile) -> tuple[Run, ...]:
        """The same at once, for planning on a key press: one small file."""
        return _load(facts, hardware) if self._keep else ()

    async def loaded(
        self,
        facts: ModelFacts,
        hardware: HardwareProfile,
        plan: Plan,
        measured: dict[str, Account],
        again: bool = False,
    ) -> None:
        """A run begins. What it holds beyond the arithmetic is kept, so what earlier runs added to the plan is
        taken off first. ``again``: a plan of before is gone back to; its bytes are on record already. Where the
        pages of managed memory lie is the driver's affair."""
        told = again or plan.runner == "managed"
        found = {} if told else gaps(_bare(plan, await self._counted(facts, hardware, plan)), measured)
        run = self._run(plan, {device: size for device, size in found.items() if size > 0})
        self._now, self._plan = (facts, hardware, run), plan
        if self._keep:
            await in_thread(_save, facts, hardware, run)

    async def ran_out(self, facts: ModelFacts, hardware: HardwareProfile, plan: Plan, device: str) -> None:
        """Memory of the ``device`` ran out while it was loaded: there GAP of the plan more is kept free the next
        time, beyond what was for earlier runs."""
        self._now = None
        counted = await self._counted(facts, hardware, plan)
        planned = plan.devices.get(device, Account()).engine
        more = _share(counted, device) + max(SMALL, -int(-GAP * planned // 1))
        if self._keep:
            await in_thread(_save, facts, hardware, self._run(plan, {device: more}))

    async def _counted(self, facts: ModelFacts, hardware: HardwareProfile, plan: Plan) -> Lesson:
        """What earlier runs added to this plan."""
        return lesson(await self.of(facts, hardware), plan.strategy, plan.precision, plan.kv)

    def _run(self, plan: Plan, extra: dict[str, int]) -> Run:
        return Run(
            strategy=plan.strategy,
            precision=plan.precision,
            kv=plan.kv,
            formula=plan.formula or plan.tokens_per_second,
            extra=extra,
            time=self._clock(),
        )

    async def replied(self, stats: ReplyStats) -> None:
        """A reply that was long enough to tell its speed. The fastest of a run counts: whatever else the machine
        did only made the others slower."""
        if self._now is None or not stats.tokens_per_second:
            return
        if stats.tokens < ENOUGH or stats.prompt_tokens + stats.tokens > LONG:
            return
        facts, hardware, run = self._now
        speed = stats.tokens_per_second
        if self._plan:  # as it would be with as many tokens in the context as the prediction is for
            speed *= self._plan.tokens_per_second / self._plan.speed_at(stats.prompt_tokens + stats.tokens / 2)
        if speed > (run.tokens_per_second or 0.0):
            self._now = (facts, hardware, replace(run, tokens_per_second=speed))
            if self._keep:
                await in_thread(_save, *self._now)


def _bare(plan: Plan, counted: Lesson) -> Plan:
    """By arithmetic alone."""
    devices = {
        device: replace(account, compute=max(0, account.compute - _share(counted, device)))
        for device, account in plan.devices.items()
    }
    return replace(plan, devices=devices)


def _share(counted: Lesson, device: str) -> int:
    """Bytes on this device."""
    return counted.ram if device == CPU else 0 if device == DISK else counted.gpu


def _load(facts: ModelFacts, hardware: HardwareProfile) -> tuple[Run, ...]:
    from llmchat.session.saved import runs

    return runs.load(facts, hardware)


def _save(facts: ModelFacts, hardware: HardwareProfile, run: Run) -> None:
    from llmchat.session.saved import runs

    runs.save(facts, hardware, run)
