"""What the KV cache takes under each policy, exactly as the engine stores it (``engine/kv/``)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from llmchat.domain.model import LayerCache

SCALE = 2
"""Bytes of a scale (bfloat16) in 8 bit."""
GROUP, LEAST = 32, 8
"""Numbers of one token and head that share a scale: at most, and at least unless they are the whole head. Measured
with SmolLM2-135M in float32, error of the logits over their spread: 4.1 % with a scale for each head of 64, 2.3 %
with 32, 2.2 % with 16; the rounding of a bfloat16 model alone gives 3.1 %."""
BLOCK = 4 * 2**20
"""Bytes that a layer's cache in RAM grows by: a power of two, to which pinned memory is rounded up anyhow, and so
large that the link takes longer to copy one than Python to start that."""
BUFFERS = 2
"""Layers' caches on the GPU at once under ``ram``: the one that is read, the next that is coming."""
USUAL_HEAD = 128
"""Assumed where facts do not say what a layer takes in 8 bit."""


def group(head_size: int) -> int:
    """Numbers that share a scale in heads of this size: the most that divide it evenly."""
    found = max(count for count in range(1, GROUP + 1) if head_size % count == 0)
    return found if found >= LEAST else head_size


def packed(heads: int, head_size: int) -> int:
    """Bytes of one token's keys, or values, in 8 bit: a byte for each number, and the scales."""
    return heads * (head_size + SCALE * (head_size // group(head_size)))


def bytes_share(head_size: int) -> float:
    """Bytes of the cache in 8 bit over those in 16 bit: 0.531 for heads of 64, 96 or 128."""
    return packed(1, head_size) / (2 * head_size)


def grows(cache: LayerCache) -> bool:
    """Whether a policy other than ``device`` changes this layer: plain attention over all of the context. Sliding
    windows and recurrent states are bounded, and stay as they are with their layer."""
    if cache.window is not None or cache.constant or not cache.per_token:
        return False
    return cache.per_token_8bit is None or cache.per_token_8bit < cache.per_token


def eight_bit(cache: LayerCache) -> LayerCache:
    """``cache`` as it is stored under ``8bit``; the same where that changes nothing."""
    if not grows(cache):
        return cache
    known = cache.per_token_8bit
    size = int(cache.per_token * bytes_share(USUAL_HEAD)) if known is None else known
    return msgspec.structs.replace(cache, per_token=size)


def in_ram(cache: LayerCache, context: int) -> int:
    """Bytes of RAM under ``ram``: whole blocks, each of as many tokens as fit. 0 for a layer that stays."""
    if not grows(cache) or not context:
        return 0
    tokens = max(1, BLOCK // cache.per_token)
    return -(-context // tokens) * max(BLOCK, cache.per_token)


def beside_ram(cache: LayerCache, context: int) -> int:
    """Bytes that stay with the layer under ``ram``."""
    return 0 if grows(cache) else cache.size(context)


def staging(caches: Iterable[LayerCache], context: int) -> int:
    """Bytes on each GPU through which the cache passes under ``ram``: two layers' caches, the largest."""
    return BUFFERS * expanded(caches, context)


def expanded(caches: Iterable[LayerCache], context: int) -> int:
    """Bytes of the largest layer's cache in 16 bit: what attention reads while a layer runs under ``8bit``."""
    return max((cache.size(context) for cache in caches if grows(cache)), default=0)
