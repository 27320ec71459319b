"""The best plan of every model on every machine, as one table to read: tests/data/golden_plans.txt.

After a change that is meant: LLMCHAT_GOLDEN=write pytest tests/unit/test_planner_golden.py, and read the diff.
"""

from __future__ import annotations

import os

from planner_cases import DATA, MACHINES, MODELS, in_gib, machine, model

from llmchat.domain.plan import Ranking, Request
from llmchat.domain.planner import rank

GOLDEN = DATA / "golden_plans.txt"
HEAD = f"{'model':30} {'machine':16} {'best plan':36} {'tok/s':>7}  GiB per device"


def table() -> list[str]:
    lines = [HEAD]
    for facts in MODELS:
        lines += [_line(facts, name, rank(model(facts), machine(name), Request())) for name in MACHINES]
    return lines


def _line(facts: str, name: str, ranking: Ranking) -> str:
    best = ranking.best
    if best is None:
        return f"{facts:30} {name:16} -  {ranking.why}"
    held = "  ".join(f"{device} {in_gib(account.engine):.1f}" for device, account in best.devices.items())
    return f"{facts:30} {name:16} {best.label:36} {best.tokens_per_second:7.3g}  {held}"


def test_golden_plans() -> None:
    lines = table()
    if os.environ.get("LLMCHAT_GOLDEN") == "write":
        GOLDEN.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == GOLDEN.read_text(encoding="utf-8").splitlines()
