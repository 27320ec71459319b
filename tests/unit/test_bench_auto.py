"""The rules by which benchmarks judge placements, on a model small enough to add up by hand."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from placement_rules import CUDA_CONTEXT, Shape, fits, judge
from random_machines import machines

from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.domain.memory import GIB

CONTEXT = 100
SHAPE = Shape(
    tensors={
        "model.embed.weight": 2 * GIB,
        **{f"model.layers.{n}.mlp.weight": 3 * GIB for n in range(4)},
        "lm_head.weight": 2 * GIB,
    },
    tied={},
    layers=tuple(f"model.layers.{n}" for n in range(4)),
    kv_per_token=GIB // 100,
    kv_per_token_8bit=GIB // 200,
    repeated_per_token=0,
    windows=(None, None, None, 10),
    loading=0,
    hidden=0,
    intermediate=0,
    vocabulary=0,
)
KV, SHORT_KV = GIB // 100 * 100, GIB // 100 * 10
"""Bytes of a full layer and of the one with a window."""


def machine(*free: float) -> HardwareProfile:
    gpus = [Gpu(index=i, name="GPU", total=99 * GIB, free=int(size * GIB)) for i, size in enumerate(free)]
    return HardwareProfile(gpus=tuple(gpus), ram_total=99 * GIB, ram_available=99 * GIB)


def test_bytes_of_a_placement_are_added_up_by_device() -> None:
    placement = {"model": "cuda:0", "model.layers.2": "cuda:1", "model.layers.3": "cpu", "lm_head": "cuda:1"}
    found = judge(SHAPE, machine(10, 10), placement, CONTEXT)
    assert found.off_gpus == 3 * GIB
    assert found.needed == {
        "cuda:0": CUDA_CONTEXT + (2 + 2 * 3) * GIB + 2 * KV + SHORT_KV + 3 * GIB,  # the last: layer 3 on its way
        "cuda:1": CUDA_CONTEXT + (3 + 2) * GIB + KV,
    }
    assert found.short == {"cuda:0": found.needed["cuda:0"] - 10 * GIB}


def test_offloaded_layers_run_on_the_main_gpu_that_is_named() -> None:
    placement = {"model": "cuda:0", "model.layers.0": "disk", "lm_head": "cuda:1"}
    named = judge(SHAPE, machine(99, 99), placement, CONTEXT, "cuda:1")
    assert named.needed["cuda:1"] == CUDA_CONTEXT + 2 * GIB + KV + 3 * GIB


def test_a_kv_cache_elsewhere_leaves_the_layer_that_is_read() -> None:
    whole = {"model": "cuda:0", "lm_head": "cuda:0"}
    weights = CUDA_CONTEXT + SHAPE.weights
    needed = {kv: judge(SHAPE, machine(99), whole, CONTEXT, kv=kv).needed["cuda:0"] for kv in ("8bit", "ram")}
    assert needed == {
        "8bit": weights + 3 * (GIB // 200 * 100) + SHORT_KV + KV,
        "ram": weights + SHORT_KV + KV,
    }


def test_tied_tensors_count_once_for_each_device() -> None:
    shape = replace(SHAPE, tied={"lm_head.weight": "model.embed.weight"})
    assert shape.weights == 14 * GIB
    together = judge(shape, machine(99, 99), {"model": "cuda:0", "lm_head": "cuda:0"}, CONTEXT)
    apart = judge(shape, machine(99, 99), {"model": "cuda:0", "lm_head": "cuda:1"}, CONTEXT)
    assert sum(apart.needed.values()) == sum(together.needed.values()) + CUDA_CONTEXT + 2 * GIB


def test_a_tensor_that_was_not_placed_is_an_error() -> None:
    with pytest.raises(KeyError):
        judge(SHAPE, machine(99), {"model": "cuda:0"}, CONTEXT)


def test_the_search_finds_what_fits_and_no_more() -> None:
    need = 16 + 3.1 + 0.5  # weights, KV cache and context on one GPU
    assert fits(SHAPE, machine(need), CONTEXT, 0, 0)
    assert not fits(SHAPE, machine(need - 0.1), CONTEXT, 0, 0)
    assert not fits(SHAPE, machine(need), CONTEXT, GIB, 0)
    assert fits(SHAPE, machine(need), CONTEXT, 0, 3 * GIB)  # while loading there is no KV cache
    assert not fits(SHAPE, machine(need), CONTEXT, 0, 4 * GIB)
    # Two GPUs with a layer and one end each are enough for all but two layers; a third takes those.
    assert not fits(SHAPE, machine(7, 7, 4), CONTEXT, 0, 0)
    assert fits(SHAPE, machine(7, 7, 9), CONTEXT, 0, 0)


def test_machines_are_the_same_for_a_seed_and_within_their_bounds() -> None:
    found = list(machines(50, 7))
    assert found == list(machines(50, 7)) != list(machines(50, 8))
    assert {len(m.gpus) for m in found} == set(range(1, 9))
    assert all(0 < (gpu.free or 0) <= gpu.total for m in found for gpu in m.gpus)
    assert all(m.software.rmm is None for m in found)
