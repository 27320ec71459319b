"""Planned bytes against those that the engine holds, for tiny models of ten architectures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Llama4TextConfig

from llmchat.domain import planner
from llmchat.domain.hardware import HardwareProfile, Software
from llmchat.domain.memory import GIB
from llmchat.domain.plan import Plan, Precision, Request
from llmchat.engine.load import load
from llmchat.engine.model.inspect import inspect
from llmchat.engine.reply.context import Context
from llmchat.engine.task import Task
from llmchat.protocol import Load

from . import tiny
from .architectures import CONFIGS, SIZES, WINDOW

CHUNK = 8
LLAMA4 = Llama4TextConfig(
    **SIZES | {"num_hidden_layers": 4},
    intermediate_size_mlp=96,
    head_dim=16,
    num_local_experts=4,
    attention_chunk_size=CHUNK,
)
SHORT, LONG = 5, 40
"""Tokens: less than a window or chunk, and several of them."""
NAMES = ("llama", "gpt2", "mistral", "gemma3", "phi3", "mixtral", "deepseek-v3", "qwen3-next", "gpt-oss", "llama4")
MACHINE = HardwareProfile(
    ram_total=64 * GIB,
    ram_available=64 * GIB,
    ram_bandwidth=1e10,
    software=Software(torch=torch.__version__, transformers="5", accelerate="1.15.0", bitsandbytes=None),
)


@pytest.fixture(scope="module", params=NAMES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name = str(request.param)
    config: Any = LLAMA4 if name == "llama4" else CONFIGS[name]
    config = type(config).from_dict(config.to_dict() | {"vocab_size": tiny.VOCABULARY})
    target: Path = tmp_path_factory.mktemp("planned") / name
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(target)
    tiny.tokenizer().save_pretrained(target)
    return target


def planned(folder: Path, context: int) -> Plan:
    request = Request(strategy="cpu", precision=Precision.PUBLISHED, context=context)
    best = planner.rank(inspect(folder, folder.name), MACHINE, request).best
    assert best is not None
    return best


def test_weights_and_kv_cache_take_what_was_planned(folder: Path) -> None:
    plan = planned(folder, LONG)
    command = Load(id=1, path=str(folder), plan=plan, facts=inspect(folder, folder.name))
    loaded, told = load(command, Task(1, lambda event: None), {})
    assert told.devices["cpu"].weights == pytest.approx(plan.devices["cpu"].weights, rel=0.03)
    for count in (SHORT, LONG):
        context = Context(loaded.model, loaded.input_device, limit=count)
        context.feed(list(range(count - 1)))
        context.feed([1])
        want = planned(folder, count).devices["cpu"].kv_cache
        assert want > 0
        assert context.bytes()["cpu"] == pytest.approx(want, rel=0.03)


def test_long_contexts_leave_the_windows(folder: Path) -> None:
    """Of the models with sliding or chunked layers: what the last test measured was a full window."""
    layers = inspect(folder, folder.name).layers
    windows = {layer.cache.window for layer in layers} - {None}
    sliding = {"mistral": {WINDOW}, "gemma3": {WINDOW}, "gpt-oss": {WINDOW}, "llama4": {CHUNK}}
    assert windows == sliding.get(folder.name, set())
    assert all(SHORT < window < LONG for window in windows if window)
