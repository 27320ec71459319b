"""``llmchat plan MODEL``: every way to hold the model here, best first. Loads nothing."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from llmchat.commands import words
from llmchat.commands.options import Options
from llmchat.commands.running import running, session_options
from llmchat.commands.stream import Progress
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import CPU, DISK, cuda, gib
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan, Proposal, Ranking, Refusal
from llmchat.domain.prequantized import stored_bytes
from llmchat.domain.words import amount, at, place
from llmchat.session.models import configs
from llmchat.session.preparing import unfit
from llmchat.session.state import SessionState


def run(options: Options) -> int:
    """Raises FitError after the table when nothing fits."""
    state = asyncio.run(_rank(options))
    ranking, facts, hardware = state.ranking, state.facts, options.hardware or state.hardware
    assert ranking is not None and facts is not None and hardware is not None
    text = words.pretty(report(ranking, facts, hardware)) if options.json else describe(ranking, facts, hardware)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    if ranking.best is None:
        raise unfit(ranking)
    return 0


async def _rank(options: Options) -> SessionState:
    model = options.model or str(configs.keep(options.config or Path()))
    async with running(session_options(options, autoload=False, keep=False)) as session:
        with Progress() as progress:
            session.subscribe(progress.show)
            session.open(model)
            await session.wait_ranking()
            return session.state


def report(ranking: Ranking, facts: ModelFacts, hardware: HardwareProfile) -> dict[str, Any]:
    """What ``--json`` prints: a Plan has ``type`` plan, a Refusal refusal."""
    return {
        "model": {
            "id": facts.id,
            "revision": facts.revision,
            "architecture": facts.architecture,
            "parameters": facts.parameters,
            "dtype": facts.dtype,
            "weight_bytes": facts.weight_bytes,
            "max_context": facts.max_context,
            "unknown": facts.unknown,
        },
        "hardware": hardware,
        "best": ranking.best,
        "why": ranking.why,
        "proposals": ranking.proposals,
    }


def describe(ranking: Ranking, facts: ModelFacts, hardware: HardwareProfile) -> str:
    """For people: model, machine, table, and why."""
    devices = [cuda(gpu.index) for gpu in hardware.gpus]
    heads = [
        "",
        "strategy",
        "precision",
        "tok/s",
        "first s",
        *(place(d) for d in devices),
        "RAM",
        "disk",
        "context",
        "",
    ]
    rows = [_row(proposal, ranking.best, devices) for proposal in ranking.proposals]
    parts = [
        f"{facts.id}: {facts.architecture}, {facts.parameters / 1e9:.2f} billion parameters, " + _size(facts),
        *(f"  not known: {text}" for text in facts.unknown),
        *_machine(hardware),
        "",
        words.table(heads, rows, left=3),
        "",
        "tok/s and first s (time to the first token of a 512-token prompt) are predicted; memory in GiB.",
        ranking.why,
    ]
    if ranking.best:
        parts += [f"  - {reason}" for reason in ranking.best.because]
    return "\n".join(parts)


def _size(facts: ModelFacts) -> str:
    """Of the weights, as published."""
    plain = f"{gib(facts.weight_bytes)} {{}} ({facts.dtype})"
    if facts.prequantized is None:
        return plain.format("as published")
    return f"{gib(stored_bytes(facts))} as published ({facts.prequantized}), {plain.format('expanded')}"


def _row(proposal: Proposal, best: Plan | None, devices: list[str]) -> list[str]:
    head = ["*" if proposal is best else "", proposal.strategy, str(proposal.precision)]
    match proposal:
        case Plan():
            memory = [_amount(proposal, device) for device in (*devices, CPU, DISK)]
            speed = [words.number(proposal.tokens_per_second), words.number(proposal.time_to_first_token)]
            return [*head, *speed, *memory, str(proposal.context), "best" if proposal is best else "fits"]
        case Refusal():
            blank = [""] * (len(devices) + 4)
            return [*head, *blank, str(proposal.context), _refused(proposal)]


def _refused(refusal: Refusal) -> str:
    if refusal.device and refusal.missing:
        return f"no: {amount(refusal.missing)} short {at(refusal.device)}"
    return f"no: {refusal.reason}"


def _amount(plan: Plan, device: str) -> str:
    count = plan.devices[device].engine if device in plan.devices else 0
    return f"{count / 2**30:.1f}" if count else "-"


def _machine(hardware: HardwareProfile) -> list[str]:
    gpus = [
        f"  GPU {g.index}  {g.name}, {'unknown' if g.free is None else gib(g.free)} of {gib(g.total)} free"
        for g in hardware.gpus
    ]
    ram = f"  RAM    {gib(hardware.ram_available)} of {gib(hardware.ram_total)} free"
    return [f"{hardware.name}:", *(gpus or ["  no GPU"]), ram]
