"""The KV cache in RAM and in 8 bit on a real card: the tokens, and where the bytes really are."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from llmchat.domain import kv
from llmchat.domain.memory import CPU, cuda
from llmchat.domain.model import LayerCache
from llmchat.domain.plan import Kv
from llmchat.engine.hardware import memory
from llmchat.engine.reply.context import Context

READ, LIMIT, CHUNK, NEW = 8192, 9216, 512, 32
SLACK = 16 * 2**20
"""Bytes of workspaces and of the tokens that are being read."""


ROUNDING = 0.2
"""Error of logits over their spread that bfloat16 alone gives with these random weights, in other pieces."""


@pytest.fixture(scope="module")
def model(checkpoint: Path) -> Iterator[Any]:
    built = AutoModelForCausalLM.from_pretrained(checkpoint, device_map={"": 0}, dtype=torch.bfloat16).eval()
    yield built
    del built
    gc.collect()
    torch.cuda.empty_cache()


@pytest.fixture(scope="module")
def ids(model: Any) -> list[int]:
    generator = torch.Generator().manual_seed(1)
    return list(torch.randint(300, model.config.vocab_size, (READ,), generator=generator).tolist())


def layer(model: Any) -> LayerCache:
    heads, size = model.config.num_key_value_heads, model.config.head_dim
    return LayerCache(per_token=2 * heads * size * 2, per_token_8bit=2 * kv.packed(heads, size))


def read(model: Any, ids: list[int], policy: Kv) -> tuple[Context, torch.Tensor, int]:
    """The context after ``ids``, its logits, and the bytes that it then has on the GPU."""
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    context = Context(model, torch.device("cuda:0"), policy, LIMIT)
    for begin in range(0, len(ids), CHUNK):
        logits = context.feed(ids[begin : begin + CHUNK])
    torch.cuda.synchronize()
    return context, logits, torch.cuda.memory_allocated() - before


def off(logits: torch.Tensor, wanted: torch.Tensor) -> float:
    """Root mean square of the error, over the spread of what is wanted."""
    return float((logits - wanted).square().mean().sqrt() / wanted.std())


def greedy(context: Context, logits: torch.Tensor) -> list[int]:
    tokens = []
    for _ in range(NEW):
        tokens.append(int(logits.argmax()))
        logits = context.feed(tokens[-1:])
    return tokens


def test_in_ram_the_tokens_are_the_same_and_the_gpu_holds_two_layers(model: Any, ids: list[int]) -> None:
    context, logits, _ = read(model, ids, "device")
    expected = greedy(context, logits)
    context.clear()
    one, count = layer(model), model.config.num_hidden_layers
    in_ram = memory.private()
    context, logits, on_gpu = read(model, ids, "ram")
    assert context.bytes() == {CPU: count * kv.in_ram(one, READ)}
    assert on_gpu <= kv.staging([one], LIMIT) + SLACK < one.size(READ) * count / 2
    grown = memory.private() - in_ram
    assert grown == pytest.approx(count * kv.in_ram(one, READ), rel=0.2)  # pinned memory counts, and once
    assert all(block.is_pinned() for part in context._cache.layers for block in part.blocks.values())
    assert greedy(context, logits) == expected
    again = [*ids[: READ // 2], *ids[:100]]
    assert context.rewind(again) == READ // 2
    assert context.bytes() == {CPU: count * kv.in_ram(one, READ // 2)}
    fresh, wanted, _ = read(model, again, "device")
    assert greedy(context, context.feed(again[READ // 2 :])) == greedy(fresh, wanted)
    context.clear()
    fresh.clear()
    assert context.bytes() == {}


def test_in_8_bit_the_cache_is_half_as_large_and_can_be_cropped(model: Any, ids: list[int]) -> None:
    plain, _, whole = read(model, ids, "device")
    near, _, half = read(model, ids, "8bit")
    one, count = layer(model), model.config.num_hidden_layers
    assert plain.bytes() == {cuda(0): one.size(READ) * count}
    assert near.bytes() == {cuda(0): kv.eight_bit(one).size(READ) * count}
    assert half == pytest.approx(whole * kv.bytes_share(model.config.head_dim), rel=0.05)
    fresh, wanted, _ = read(model, ids[:1000], "8bit")
    assert near.rewind([*ids[:999], 5]) == 999
    assert off(near.feed([ids[999]]), wanted) < ROUNDING
    for context in (plain, near, fresh):
        context.clear()


def test_8_bit_costs_no_more_accuracy_than_bfloat16(model: Any, checkpoint: Path, ids: list[int]) -> None:
    """Against the same model in float32. Random weights are sharper than trained ones: both errors are larger."""
    exact = AutoModelForCausalLM.from_pretrained(checkpoint, device_map={"": 0}, dtype=torch.float32).eval()
    part = ids[:1024]
    contexts = [read(m, part, policy)[:2] for m, policy in ((exact, "device"), (model, "device"), (exact, "8bit"))]
    rounded, eight = [], []
    for token in ids[:NEW]:
        wanted, bfloat16, in_8_bit = (context.feed([token]) for context, _ in contexts)
        rounded.append(off(bfloat16, wanted))
        eight.append(off(in_8_bit, wanted))
    print(f"bfloat16 {statistics.median(rounded):.3f}, KV in 8 bit {statistics.median(eight):.3f}")
    assert 0 < statistics.median(eight) < 1.5 * statistics.median(rounded)
    for context, _ in contexts:
        context.clear()
