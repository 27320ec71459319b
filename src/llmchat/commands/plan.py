"""``llmchat plan MODEL``: every way to hold the model here, best first. Loads nothing."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from llmchat.commands import words
from llmchat.commands.options import Options
from llmchat.commands.plan_text import describe
from llmchat.commands.running import running, session_options
from llmchat.commands.stream import Progress
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Ranking
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
        "enough": ranking.enough,
        "proposals": ranking.proposals,
    }
