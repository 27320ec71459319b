"""Write the tables of README.md and docs/strategies.md anew, from the planner itself.

    python docs/make_tables.py       or: make docs-tables

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``; NAME is a key of TABLES. Models and
machines are those of tests/data: real configs, no weights. tests/unit/test_docs_tables.py tells when they are old.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import planner_constants

from llmchat.domain import prequantized
from llmchat.domain.advice import ranking
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import CPU, gib
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Kv, Plan, Precision, Proposal, Ranking, Refusal, Request
from llmchat.domain.planner import rank
from llmchat.domain.precision import model_bytes, quantized_share
from llmchat.domain.strategies import ALL
from llmchat.domain.words import amount, at, place

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests/data"
DOCUMENTS = (ROOT / "README.md", ROOT / "docs/strategies.md")
BLOCK = re.compile(r"<!-- table: ([\w-]+) -->\n.*?<!-- end -->", re.DOTALL)

WIZARD_13B, SMOL = "wizardlm-13b-v1.2", "smollm2-135m-instruct"
LLAMA_8B, LLAMA_70B = "llama-3.1-8b-instruct", "llama-3.1-70b-instruct"
PUBLISHED = Request(precision=Precision.PUBLISHED)

GOOD_FOR = {
    "single-gpu": "what fits",
    "multi-gpu": "more than one GPU's memory",
    "ram-offload": "one GPU and much RAM",
    "disk-offload": "being able to run it at all",
    "managed": "machines whose CPU and GPU share memory coherently (GH200, GB200)",
    "cpu": "no GPU",
}
EXAMPLES = {
    "single-gpu": ("h200", Precision.PUBLISHED),
    "multi-gpu": ("rtx3090-x2", Precision.INT4),
    "ram-offload": ("gh200-96gb", Precision.PUBLISHED),
    "disk-offload": ("no-gpu-24gb", Precision.PUBLISHED),
    "managed": ("gh200-96gb", Precision.PUBLISHED),
    "cpu": ("gh200-96gb", Precision.PUBLISHED),
}
"""The machine on which a 70B is held so, and in which precision."""
KINDS_OF_MACHINE = (
    ("four V100 of 16 GB", "p3.8xlarge", WIZARD_13B, Request()),
    ("two RTX 3090", "rtx3090-x2", LLAMA_70B, Request()),
    ("one Grace Hopper, 96 + 480 GB", "gh200-96gb", LLAMA_70B, PUBLISHED),
    ("no GPU, two cores, 24 GB of RAM", "no-gpu-24gb", SMOL, Request()),
)
CONTEXTS = (8_192, 32_768, 131_072)
CACHED = (
    SMOL,
    WIZARD_13B,
    LLAMA_8B,
    LLAMA_70B,
    "gemma-3-27b-it",
    "gpt-oss-20b",
    "llama-4-scout-17b-16e-instruct",
    "deepseek-v3",
    "qwen3-next-80b-a3b-instruct",
)
SHRUNK = (SMOL, LLAMA_8B, LLAMA_70B, "gemma-3-27b-it", "mixtral-8x7b-instruct-v0.1", "qwen3-30b-a3b")
STORED_QUANTIZED = (
    ("gpt-oss-20b", "gb10-128gb"),
    ("gpt-oss-20b", "rtx3090-x1"),
    ("gpt-oss-20b", "no-gpu-24gb"),
    ("deepseek-v3", "h200-x8"),
    ("deepseek-v3", "p3.8xlarge"),
    ("deepseek-v3", "gh200-96gb"),
)
LATENT = "deepseek-v3"
"""Its cache is one latent vector a token, not keys and values of heads."""
Lines = Sequence[str]


@cache
def model(name: str) -> ModelFacts:
    return msgspec.json.decode((DATA / f"models/{name}.json").read_bytes(), type=ModelFacts)


@cache
def machine(name: str) -> HardwareProfile:
    return msgspec.json.decode((DATA / f"hardware/{name}.json").read_bytes(), type=HardwareProfile)


def ranked(facts: str, on: str, request: Request) -> Ranking:
    return rank(model(facts), machine(on), request)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Lines:
    """Markdown; cells without vertical bars."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def number(value: float) -> str:
    """Two significant digits, as many as a prediction is good for: ``120``, ``8.6``, ``0.0073``."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 10 else f"{value:.2g}"


def size(count: int) -> str:
    """In GiB, or MiB: ``12.3``, ``180 MiB``."""
    return amount(count).removesuffix(" GiB")


def short_name(facts: ModelFacts) -> str:
    return facts.id.split("/")[-1]


def held(plan: Plan) -> str:
    parts = [(place(device), account.engine) for device, account in plan.devices.items() if account.engine]
    return ", ".join(f"{name} {size(count)}" for name, count in parts)


def full(plan: Plan) -> float:
    return plan.full_tokens_per_second or plan.tokens_per_second


def strategies() -> Lines:
    rows = []
    for strategy in ALL:
        on, precision = EXAMPLES[strategy.name]
        plan = found(ranked(LLAMA_70B, on, Request()), strategy.name, precision)
        bits = ", 4 bit" if precision is Precision.INT4 else ""
        speed = f"{number(plan.tokens_per_second)} tok/s (`{on}`{bits})"
        rows.append([f"`{strategy.name}`", strategy.summary, GOOD_FOR[strategy.name], speed])
    return table(["name", "weights are", "good for", "a 70B, predicted"], rows)


def found(answer: Ranking, strategy: str, precision: Precision = Precision.PUBLISHED, kv: Kv = "device") -> Plan:
    way = (strategy, precision, kv)
    return next(plan for plan in answer.plans if (plan.strategy, plan.precision, plan.kv) == way)


def kinds_of_machine() -> Lines:
    rows = []
    for words, on, facts, request in KINDS_OF_MACHINE:
        best = ranked(facts, on, request).best
        assert best is not None
        asked = ", asked for as published" if request.precision else ""
        weights = f"{short_name(model(facts))} ({size(model(facts).weight_bytes)}){asked}"
        rows.append([words, weights, f"`{best.label}`: {held(best)}", number(best.tokens_per_second)])
    return table(["machine", "model (weights, GiB)", "llmchat would take (GiB)", "tok/s, predicted"], rows)


def plans(facts: str, on: str, request: Request) -> Lines:
    """The planner's own table without what would move nothing, and under it what does not fit."""
    answer = ranked(facts, on, request)
    asked = [plan for plan in answer.plans if ranking.asked_for(plan, request)]
    rows = [_plan_row(plan, answer.best) for plan in asked if not ranking.needless(plan, answer.plans)]
    heads = ["plan", "tok/s", "with a full context", "first token, s", "GiB per device", "why not"]
    missed = [p for p in answer.proposals if isinstance(p, Refusal) and ranking.asked_for(p, request)]
    context = answer.plans[0].context
    why = f"{answer.why} Context: {context:,} tokens."
    return [*table(heads, rows), "", why, "", f"Not possible: {'; '.join(_refusals(missed))}."]


def _plan_row(plan: Plan, best: Plan | None) -> list[str]:
    mark = "**" if plan is best else ""
    speeds = (plan.tokens_per_second, full(plan), plan.time_to_first_token)
    why = "the best" if plan is best else plan.why_not.rstrip(".")
    return [f"{mark}{plan.label}{mark}", *map(number, speeds), held(plan), why]


def _refusals(refusals: Sequence[Refusal]) -> Iterator[str]:
    """One for each reason, with the strategies and the precisions for which it holds."""
    groups: dict[tuple[str, str], list[str]] = {}
    for refusal in refusals:
        groups.setdefault((refusal.strategy, _reason(refusal)), []).append(str(refusal.precision))
    reasons: dict[str, list[str]] = {}
    for (strategy, reason), precisions in groups.items():
        which = "" if len(precisions) == len(Precision) else f" {' and '.join(precisions)}"
        reasons.setdefault(reason, []).append(f"`{strategy}`{which}")
    for reason, names in reasons.items():
        yield f"{', '.join(names)}: {reason}"


def _reason(refusal: Refusal) -> str:
    if refusal.device and refusal.missing:
        return f"{amount(refusal.missing)} short {at(refusal.device)}"
    return refusal.reason.rstrip(".")


def kv_sizes() -> Lines:
    rows = []
    for name in CACHED:
        facts = model(name)
        sizes = [
            size(facts.kv_bytes(context)) if context <= (facts.max_context or context) else "-"
            for context in CONTEXTS
        ]
        growth = sum(module.cache.per_token for module in facts.layers if module.cache.window is None)
        rows.append([short_name(facts), _layers(name), _heads(name), f"{growth // 1024:,} KiB", *sizes])
    lengths = [f"{context // 1024}k" for context in CONTEXTS]
    heads = ["model", "layers", "heads with keys and values of their own", "each further token", *lengths]
    return table(heads, rows)


def _layers(name: str) -> str:
    kinds = Counter(_kind(name, module.cache.window, module.cache.constant) for module in model(name).layers)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())


def _kind(name: str, window: int | None, constant: int) -> str:
    if constant:
        return "linear"
    if name == LATENT:
        return "latent (MLA)"
    return "full" if window is None else f"with a window of {window:,}"


def _heads(name: str) -> str:
    config: dict[str, Any] = msgspec.json.decode((DATA / f"configs/{name}.json").read_bytes())
    text = config.get("text_config", config)
    if name == LATENT:
        return "one vector for all"
    heads = text["num_attention_heads"]
    return f"{text.get('num_key_value_heads') or heads} of {heads}"


def kv_policies() -> Lines:
    rows = []
    for on, context in (("rtx3090-x1", 32_768), ("rtx3090-x1", 65_536), ("h200", 131_072)):
        for policy in ("device", "8bit", "ram"):
            request = Request(strategy="single-gpu", precision=Precision.PUBLISHED, context=context, kv=policy)
            proposals = ranked(LLAMA_8B, on, request).proposals
            asked = next(p for p in proposals if ranking.asked_for(p, request))
            rows.append([machine(on).name, f"{context:,}", f"`{policy}`", *_kv_cells(asked)])
    return table(["machine", "context", "`--kv`", "GiB per device", "tok/s", "with a full context"], rows)


def _kv_cells(answer: Proposal) -> list[str]:
    if isinstance(answer, Refusal):
        return [_reason(answer), "-", "-"]
    return [held(answer), number(answer.tokens_per_second), number(full(answer))]


def shrunk() -> Lines:
    rows = []
    for name in SHRUNK:
        facts = model(name)
        sizes = [size(model_bytes(facts, precision)) for precision in Precision]
        rows.append([short_name(facts), *sizes, f"{quantized_share(facts, Precision.INT4):.0%}"])
    return table(["model", "published, GiB", "8 bit", "4 bit", "share of the parameters that shrinks"], rows)


def stored_quantized() -> Lines:
    rows = []
    for name, on in STORED_QUANTIZED:
        facts, hardware = model(name), machine(on)
        held_as = prequantized.resolve(facts, hardware, bool(hardware.gpus))
        outcome = held_as.problem.rstrip(".") or ", ".join(held_as.remarks)
        sizes = [size(prequantized.stored_bytes(facts)), size(facts.weight_bytes)]
        rows.append([f"{short_name(facts)} ({facts.prequantized})", *sizes, hardware.name, outcome])
    return table(["model", "as stored, GiB", "expanded to 16 bit", "machine of tests/data", "there"], rows)


def two_3090() -> Lines:
    answer = ranked(LLAMA_70B, "rtx3090-x2", Request())
    plan = found(answer, "multi-gpu", Precision.INT4)
    gpus = {device: account for device, account in plan.devices.items() if device != CPU}
    heads = ["GiB", *(place(device) for device in gpus), "together"]

    def row(words: str, counts: list[int]) -> list[str]:
        return [words, *map(size, counts), size(sum(counts))]

    accounts = list(gpus.values())
    rows = [
        row("weights in 4 bit", [account.weights for account in accounts]),
        row(f"KV cache for {plan.context:,} tokens", [account.kv_cache for account in accounts]),
        row("CUDA context and working memory", [account.compute for account in accounts]),
        row("needed", [account.engine for account in accounts]),
        row("free before", [gpu.free or 0 for gpu in machine("rtx3090-x2").gpus]),
    ]
    alone = ranked(LLAMA_70B, "rtx3090-x1", Request(strategy="single-gpu", precision=Precision.INT4))
    missed = next(p for p in alone.proposals if isinstance(p, Refusal) and p.strategy == "single-gpu")
    weights = model_bytes(model(LLAMA_70B), Precision.INT4)
    words = f"On one, `single-gpu` in 4 bit is {_reason(missed)}: the weights alone are {gib(weights)}."
    return [*table(heads, rows), "", words]


def uneven() -> Lines:
    on = "uneven-80-48-12"
    plan = found(ranked(LLAMA_70B, on, Request()), "multi-gpu")
    speed = number(plan.tokens_per_second)
    return [f"On {machine(on).name}, llmchat plans `{plan.label}` as published: {held(plan)} GiB, {speed} tok/s."]


def coherent() -> Lines:
    rows = []
    for words, on, request in (
        ("GH200, RAM over NVLink-C2C", "gh200-96gb", PUBLISHED),
        ("an A100 of 80 GB, RAM over PCIe", "uneven-80-48-12", msgspec.structs.replace(PUBLISHED, gpus=(0,))),
        ("GB10, CPU and GPU in one memory", "gb10-128gb", PUBLISHED),
    ):
        answer = ranked(LLAMA_70B, on, request)
        names = ("managed", "ram-offload", "cpu")
        ways = {p.strategy: p for p in answer.proposals if ranking.asked_for(p, request) and p.kv == "device"}
        rows.append([words, *(_coherent_cell(ways[name]) for name in names)])
    return table(["machine", "`managed`", "`ram-offload`", "`cpu`"], rows)


def _coherent_cell(answer: Proposal) -> str:
    if isinstance(answer, Refusal):
        return f"no: {answer.reason.rstrip('.')}"
    return f"{number(answer.tokens_per_second)} tok/s ({held(answer)})"


def constants(found: Iterable[planner_constants.Constant]) -> Lines:
    return table(["constant", "value", "what it is"], ([f"`{c.name}`", f"`{c.value}`", c.said] for c in found))


TABLES: dict[str, Callable[[], Lines]] = {
    "strategies": strategies,
    "kinds-of-machine": kinds_of_machine,
    "kv-sizes": kv_sizes,
    "kv-policies": kv_policies,
    "shrunk": shrunk,
    "stored-quantized": stored_quantized,
    "two-3090": two_3090,
    "uneven": uneven,
    "coherent": coherent,
    "estimates": lambda: constants(planner_constants.estimates()),
    "four-v100": lambda: plans(WIZARD_13B, "p3.8xlarge", Request()),
    "rtx3090-x2": lambda: plans(LLAMA_70B, "rtx3090-x2", Request()),
    "gh200-published": lambda: plans(LLAMA_70B, "gh200-96gb", PUBLISHED),
    "gh200": lambda: plans(LLAMA_70B, "gh200-96gb", Request()),
    "no-gpu-small": lambda: plans(SMOL, "no-gpu-24gb", Request()),
    "no-gpu-8b": lambda: plans(LLAMA_8B, "no-gpu-24gb", Request()),
}


def renewed(text: str) -> str:
    """``text`` with every table made anew. Raises ValueError for a table that is not known or has no end."""
    names = BLOCK.findall(text)
    if len(names) != text.count("<!-- table:") or len(names) != text.count("<!-- end -->"):
        raise ValueError("A table begins and does not end, or ends and does not begin.")
    if unknown := set(names) - TABLES.keys():
        raise ValueError(f"No such table: {', '.join(sorted(unknown))}.")
    return BLOCK.sub(lambda block: "\n".join(_block(block[1])), text)


def _block(name: str) -> Iterator[str]:
    yield f"<!-- table: {name} -->"
    yield ""
    yield from TABLES[name]()
    yield ""
    yield "<!-- end -->"


def main() -> None:
    for path in DOCUMENTS:
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
