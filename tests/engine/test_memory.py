"""Measured bytes: what is held and what the system can take back, and what is said where a plan was wrong."""

from __future__ import annotations

import gc
from pathlib import Path

import msgspec
import pytest
import torch

from llmchat.domain.memory import Account
from llmchat.domain.model import ModelFacts
from llmchat.engine.hardware import memory
from llmchat.engine.load import notes

from .conftest import MakePlan


def test_a_file_that_was_read_is_not_held(tmp_path: Path) -> None:
    size = 256 * 2**20
    file = tmp_path / "checkpoint"
    with file.open("wb") as stream:
        stream.truncate(size)
    gc.collect()
    before = memory.private()
    view = torch.from_file(str(file), size=size, dtype=torch.uint8)
    assert int(view.max()) == 0
    assert memory.private() - before < size // 4
    heap = torch.ones(size, dtype=torch.uint8)
    assert size * 0.75 < memory.private() - before < size * 1.25
    module = torch.nn.Module()
    module.register_buffer("in_file", view)
    module.register_buffer("on_heap", heap)
    assert memory.mapped(module) == size
    told = memory.held({}, {}, in_files=size)["cpu"]
    assert (told.mapped, told.context) == (size, 0)
    assert told.reserved - memory.private() == pytest.approx(size, rel=0.25)


def test_gaps_are_told_with_planned_and_measured_bytes(
    tiny_facts: ModelFacts, make_plan: MakePlan, capfd: pytest.CaptureFixture[str]
) -> None:
    gib = 2**30
    planned = {"cuda:0": Account(weights=4 * gib, compute=gib), "cpu": Account(compute=gib)}
    measured = {"cuda:0": Account(weights=4 * gib, compute=2 * gib), "cpu": Account(compute=gib // 2)}
    plan = msgspec.structs.replace(make_plan(tiny_facts), devices=planned)
    told = ["6.00 GiB of weights and workspace are on GPU 0; 5.00 GiB were planned"]
    assert notes(plan, measured) == told
    assert told[0] in capfd.readouterr().err
    assert notes(plan, planned) == []
    managed = msgspec.structs.replace(plan, runner="managed")
    moved = {"cuda:0": Account(weights=gib, compute=gib), "cpu": Account(weights=3 * gib, compute=gib)}
    assert notes(managed, moved) == []
    assert notes(plan, moved) != []
