"""Which layers of a KV cache a policy changes, and the cache that results."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from llmchat.domain.plan import Kv
from llmchat.engine.kv.eight_bit import EightBitLayer
from llmchat.engine.kv.growing import GrowingLayer
from llmchat.engine.kv.lane import Lanes
from llmchat.engine.kv.ram import RamLayer


def new_cache(config: Any, kv: Kv = "device", limit: int = 0) -> DynamicCache:
    """For a model of this ``config``. ``limit``: tokens that it will hold at most, for the size of buffers; more
    are not refused. Without a GPU ``ram`` is the plain cache: everything lies in RAM then."""
    cache = DynamicCache(config=config)
    if kv == "ram" and torch.cuda.is_available():
        move_to_ram(config, cache, limit)
        return cache
    for index in changed(config, cache):
        cache.layers[index] = EightBitLayer() if kv == "8bit" else GrowingLayer(limit)
    return cache


def move_to_ram(config: Any, cache: DynamicCache, limit: int, *, also_cpu: bool = False) -> None:
    """Have the layers of an empty ``cache`` keep theirs in RAM. ``also_cpu``: those that run on the CPU, too,
    which gains nothing."""
    lanes, following = Lanes(), None
    for index in reversed(changed(config, cache)):
        following = RamLayer(lanes, following, limit, also_cpu=also_cpu)
        cache.layers[index] = following


def changed(config: Any, cache: DynamicCache) -> list[int]:
    """Indices of the layers that are ours: plain attention over all of the context. Not those whose keys and
    values other layers read as well (Gemma 4): they are handed on as tensors, past the cache."""
    modes = getattr(config.get_text_config(decoder=True), "kv_sharing_modes", None) or [None] * len(cache.layers)
    return [
        index
        for index, (layer, mode) in enumerate(zip(cache.layers, modes, strict=False))
        if type(layer) is DynamicLayer and mode is None
    ]
