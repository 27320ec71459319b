"""What runs of a model on this machine gave, kept as JSON for the planner: one file for a model and a machine."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.measured import KEPT, Run
from llmchat.domain.model import ModelFacts
from llmchat.session import paths
from llmchat.session.hardware import calibration


def load(facts: ModelFacts, hardware: HardwareProfile) -> tuple[Run, ...]:
    """The kept runs; none where there is no such file, or not one that this version can read."""
    try:
        return msgspec.json.decode(_file(facts, hardware).read_bytes(), type=tuple[Run, ...])
    except (OSError, msgspec.DecodeError):
        return ()


def save(facts: ModelFacts, hardware: HardwareProfile, run: Run) -> tuple[Run, ...]:
    """Keep it, in place of an earlier record of the same run (by its time), with the latest few of each way to
    hold the model; returns them. What cannot be written is no error: the planner then goes by arithmetic."""
    kept = _latest([*(known for known in load(facts, hardware) if known.time != run.time), run])
    with contextlib.suppress(OSError):
        target = _file(facts, hardware)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(msgspec.json.encode(kept))
        part.replace(target)
    return kept


def _latest(runs: Sequence[Run]) -> tuple[Run, ...]:
    by_way: dict[tuple[str, str, str], list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.time):
        by_way.setdefault((run.strategy, run.precision, run.kv), []).append(run)
    return tuple(run for same in by_way.values() for run in same[-KEPT:])


def _file(facts: ModelFacts, hardware: HardwareProfile) -> Path:
    """A fine-tune of the same make shares the speed, but a quantized copy of the same name does not."""
    parts = [facts.id, facts.revision, facts.architecture, str(facts.parameters), str(facts.weight_bytes)]
    name = hashlib.sha256("\n".join([*parts, facts.prequantized or ""]).encode()).hexdigest()[:16]
    return paths.cache_dir() / "runs" / f"{name}-{calibration.identity(hardware)}.json"
