"""Our placement beside ``device_map="auto"`` and accelerate's ``infer_auto_device_map``, on random machines.

    python bench/planner_vs_auto.py [--machines 200] [--seed 0]

Six real models as published (built on ``meta`` from their configs: no weights, no GPU), contexts of 8,192 and
32,768 tokens where the model has them. The rules that judge are in placement_rules.py. Prints one Markdown table;
a cell gives llmchat / transformers / accelerate. ``--faults`` adds the smallest case of each fault of ours.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from auto_maps import accelerate_auto, transformers_auto
from placement_rules import Judgement, Placement, Shape, fits, judge, shape
from random_machines import machines

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import GIB
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan, Precision, Request
from llmchat.domain.planner import rank
from llmchat.engine.model import architecture, units
from llmchat.engine.model.inspect import inspect

DATA = Path(__file__).parents[1] / "tests" / "data"
MODELS = (
    "llama-3.1-8b-instruct",
    "llama-3.1-70b-instruct",
    "wizardlm-13b-v1.2",
    "gemma-3-27b-it",
    "mixtral-8x7b-instruct-v0.1",
    "qwen3-30b-a3b",
)
CONTEXTS = (8192, 32768)
COMPARABLE = ("single-gpu", "multi-gpu", "ram-offload", "disk-offload")
TOOLS = ("llmchat", "transformers", "accelerate")
NOTES = {
    "left off, tight": "Weights off the GPUs where all would fit if attention and loading needed no room",
    "refused alone": "No placement although another tool's would run",
}


@dataclass
class Score:
    """Of one tool, over all machines."""

    left_off: list[int] = field(default_factory=list)
    """Bytes of weights off the GPUs, of each case in which all would fit on them."""
    left_off_tight: int = 0
    """Cases more in which all would fit if neither attention nor loading needed room for a moment."""
    out_of_memory: int = 0
    refused: int = 0
    refused_alone: int = 0
    """No placement, although that of another tool would run."""


@dataclass
class Row:
    model: str
    context: int
    cases: int = 0
    fitting: int = 0
    kv: Counter[str] = field(default_factory=Counter)
    """Where our plans keep the KV cache."""
    scores: dict[str, Score] = field(default_factory=lambda: {tool: Score() for tool in TOOLS})


@dataclass(frozen=True)
class Subject:
    name: str
    model: Any
    facts: ModelFacts
    shape: Shape

    def contexts(self) -> list[int]:
        """The asked ones that the model has; its own where it has none of them."""
        most = self.facts.max_context or CONTEXTS[0]
        return [context for context in CONTEXTS if context <= most] or [most]


def subject(name: str) -> Subject:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copy(DATA / "configs" / f"{name}.json", folder / "config.json")
        config = architecture.read_config(folder)
        facts = inspect(folder, name)
        dtype = getattr(sys.modules["torch"], facts.dtype)
        model = architecture.empty_model(config, dtype)
    layers = units.decoder_layers(model, architecture.text_config(config).num_hidden_layers)
    return Subject(name, model, facts, shape(model, tuple(layers)))


def ours(facts: ModelFacts, machine: HardwareProfile, context: int) -> Plan | None:
    """The best with the weights as published; the CPU alone and managed memory have nothing to compare with."""
    ranking = rank(facts, machine, Request(precision=Precision.PUBLISHED, context=context))
    for plan in ranking.plans:
        if plan.precision is Precision.PUBLISHED and plan.strategy in COMPARABLE:
            return plan
    return None


def attempt(tool: Callable[[], Placement | None]) -> Placement | None:
    try:
        return tool()
    except Exception:  # an error of theirs is no placement; the bench goes on
        return None


def score(row: Row, shape: Shape, machine: HardwareProfile, found: dict[str, Judgement | None]) -> None:
    """Adds one machine to ``row``."""
    runs = [judgement for judgement in found.values() if judgement is not None and not judgement.short]
    fit = fits(shape, machine, row.context, shape.attention(row.context), shape.loading)
    tight = fits(shape, machine, row.context, 0, 0)
    row.cases += 1
    row.fitting += fit
    for tool, judgement in found.items():
        own = row.scores[tool]
        if judgement is None:
            own.refused += 1
            own.refused_alone += bool(runs)
            continue
        own.out_of_memory += bool(judgement.short)
        if judgement.off_gpus and fit:
            own.left_off.append(judgement.off_gpus)
        elif judgement.off_gpus and tight:
            own.left_off_tight += 1


@dataclass(frozen=True)
class Fault:
    """Where ours is not what it should be."""

    kind: str
    model: str
    context: int
    machine: HardwareProfile
    plan: Plan | None
    judgement: Judgement | None


def measure(subject: Subject, context: int, tried: Sequence[HardwareProfile], faults: list[Fault]) -> Row:
    row = Row(subject.name, context)
    for machine in tried:
        plan = ours(subject.facts, machine, context)
        found: dict[str, Judgement | None] = {"llmchat": None}
        if plan:
            found["llmchat"] = judge(subject.shape, machine, plan.placement, context, plan.main_device, plan.kv)
            row.kv[plan.kv] += 1
        for tool, function in (("transformers", transformers_auto), ("accelerate", accelerate_auto)):
            placement = attempt(partial(function, subject.model, machine))
            found[tool] = judge(subject.shape, machine, placement, context) if placement is not None else None
        before = counts(row.scores["llmchat"])
        score(row, subject.shape, machine, found)
        after = counts(row.scores["llmchat"])
        kinds = [kind for kind in after if after[kind] > before[kind]]
        faults += [Fault(kind, subject.name, context, machine, plan, found["llmchat"]) for kind in kinds]
    return row


def counts(own: Score) -> dict[str, int]:
    return {
        "left off": len(own.left_off),
        "left off, tight": own.left_off_tight,
        "out of memory": own.out_of_memory,
        "refused alone": own.refused_alone,
    }


def table(rows: Sequence[Row]) -> str:
    """Markdown; a total for each model with several contexts, and one for all."""
    lines = [
        "| model | context | cases | fit on the GPUs | weights left off though they fit | GiB left off then | "
        "out of GPU memory | no placement |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row.model for row in rows):
        own = [row for row in rows if row.model == name]
        lines += [_line(row.model, f"{row.context:,}", [row]) for row in own]
        if len(own) > 1:
            lines.append(_line(f"**{name}**", "both", own))
    lines.append(_line("**all**", "", rows))
    return "\n".join(lines)


def _line(name: str, context: str, rows: Sequence[Row]) -> str:
    def cell(value: Callable[[list[Score]], str]) -> str:
        return " / ".join(value([row.scores[tool] for row in rows]) for tool in TOOLS)

    return (
        f"| {name} | {context} | {sum(row.cases for row in rows)} | {sum(row.fitting for row in rows)} "
        f"| {cell(lambda scores: str(sum(len(s.left_off) for s in scores)))} | {cell(_average)} "
        f"| {cell(lambda scores: str(sum(s.out_of_memory for s in scores)))} "
        f"| {cell(lambda scores: str(sum(s.refused for s in scores)))} |"
    )


def _average(scores: Sequence[Score]) -> str:
    amounts = [amount for s in scores for amount in s.left_off]
    return f"{sum(amounts) / len(amounts) / GIB:.1f}" if amounts else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", nargs="*", default=MODELS, help="names of files in tests/data/configs")
    parser.add_argument("--faults", action="store_true", help="print the smallest example of each fault of ours")
    arguments = parser.parse_args()
    tried = list(machines(arguments.machines, arguments.seed))
    rows: list[Row] = []
    faults: list[Fault] = []
    for name in arguments.models:
        found = subject(name)
        rows += [measure(found, context, tried, faults) for context in found.contexts()]
    packages = ", ".join(f"{name} {version(name)}" for name in ("llmchat", "transformers", "accelerate"))
    print(f"{arguments.machines} machines, seed {arguments.seed}; {packages}\n\n{table(rows)}")
    for kind, words in NOTES.items():
        print(f"\n{words}: " + " / ".join(str(sum(counts(r.scores[tool])[kind] for r in rows)) for tool in TOOLS))
    kept = sum((row.kv for row in rows), Counter[str]())
    print(f"\nllmchat keeps the KV cache in 8 bit in {kept['8bit']} and in RAM in {kept['ram']} of its plans.")
    if arguments.faults:
        for kind in dict.fromkeys(fault.kind for fault in faults):
            of_kind = [fault for fault in faults if fault.kind == kind]
            smallest = min(of_kind, key=lambda fault: (len(fault.machine.gpus), fault.context))
            print(f"\n{len(of_kind)} x {kind}: {msgspec.json.encode(smallest).decode()}")


if __name__ == "__main__":
    main()
