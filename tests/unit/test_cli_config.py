"""``llmchat plan --config FILE``: the option, and what the plan then says."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from llmchat.commands import options, plan
from llmchat.domain import planner
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import GIB
from llmchat.domain.model import ModelFacts, Module
from llmchat.domain.plan import Request
from llmchat.errors import UsageError

FACTS = ModelFacts(
    id="gated",
    architecture="X",
    dtype="bfloat16",
    parameters=10**9,
    hidden_size=64,
    vocab_size=64,
    max_context=4096,
    modules=(Module(name="a", kind="layer", bytes=4 * GIB, active_bytes=4 * GIB, stored=GIB),),
    unknown=("whether it has a chat template",),
)
MACHINE = HardwareProfile(ram_total=64 * GIB, ram_available=60 * GIB)


def test_a_config_stands_in_place_of_a_model() -> None:
    found = options.parse(["plan", "--config", "some/config.json", "--context", "100"])
    assert (found.model, found.config, found.request.context) == (None, Path("some/config.json"), 100)


@pytest.mark.parametrize(
    "arguments", [[], ["smollm2", "--config", "c.json"], ["--config", "c.json", "--fake-engine"]]
)
def test_neither_both_or_fake(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="config"):
        options.parse(["plan", *arguments])


def test_what_is_not_known_is_said() -> None:
    ranking = planner.rank(FACTS, MACHINE, Request())
    lines = plan.describe(ranking, FACTS, MACHINE).splitlines()
    assert "4.0 GiB as published (bfloat16)" in lines[0]
    assert "  not known: whether it has a chat template" in lines
    assert plan.report(ranking, FACTS, MACHINE)["model"]["unknown"] == FACTS.unknown


def test_a_quantized_checkpoint_has_two_sizes() -> None:
    facts = replace(FACTS, prequantized="mxfp4")
    head = plan.describe(planner.rank(facts, MACHINE, Request()), facts, MACHINE).splitlines()[0]
    assert "1.0 GiB as published (mxfp4), 4.0 GiB expanded (bfloat16)" in head
