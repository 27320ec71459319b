"""The KV cache of each layer, found by running the empty model on ``meta`` and looking at what it keeps."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from llmchat.domain.kv import packed
from llmchat.domain.model import LayerCache
from llmchat.engine.kv.cache import changed

SHORT, LONG = 128, 256
"""Tokens of the two trial runs; multiples of every chunk and compression size in use."""


def layer_caches(model: Any) -> tuple[LayerCache, ...]:
    """One per decoder layer that the cache knows. Raises whatever the model raises on ``meta``."""
    short, long = _run(model, SHORT), _run(model, LONG)
    shrinks = changed(model.config, long)
    return tuple(
        _compare(a, b, index in shrinks)
        for index, (a, b) in enumerate(zip(short.layers, long.layers, strict=True))
    )


def cache_argument(model: Any) -> str:
    """What this version of transformers calls the cache in ``forward``: ``cache`` from 5.24 on."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def _run(model: Any, length: int) -> Any:
    if getattr(model, "_can_set_experts_implementation", lambda: False)():
        model.set_experts_implementation("batched_mm")  # the eager one asks which experts were hit: not on meta
    cache = DynamicCache(config=model.config)
    ids = torch.zeros(1, length, dtype=torch.long, device="meta")
    with torch.no_grad(), torch.device("meta"):
        model(input_ids=ids, use_cache=True, **{cache_argument(model): cache})
    return cache


def _compare(short: Any, long: Any, shrinks: bool) -> LayerCache:
    """From the bytes kept after SHORT and after LONG tokens. ``shrinks``: whether 8 bit changes this layer."""
    small, large = (sum(tensor.nbytes for tensor in tensors(layer)) for layer in (short, long))
    window = getattr(long, "sliding_window", None)
    keys = getattr(long, "keys", None)
    if window is not None and keys is not None:
        per_token = (keys.nbytes + long.values.nbytes) // keys.shape[-2]
        constant = large - per_token * keys.shape[-2]
        return LayerCache(per_token=per_token, window=window, constant=constant, per_token_8bit=per_token)
    per_token = (large - small) // (LONG - SHORT)
    eight = (
        sum(packed(part.shape[1], part.shape[3]) for part in (long.keys, long.values)) if shrinks else per_token
    )
    return LayerCache(per_token=per_token, constant=small - per_token * SHORT, per_token_8bit=eight)


def tensors(layer: Any) -> Iterator[torch.Tensor]:
    """Every tensor that a cache layer keeps (not the scalar that holds its window)."""
    for value in vars(layer).values():
        for item in value.values() if isinstance(value, dict) else (value,):
            if isinstance(item, torch.Tensor) and item.dim() > 1:
                yield item
