"""Where the KV cache's bytes lie under each policy. How it is stored there is said in ``domain/kv.py``."""

from __future__ import annotations

from collections.abc import Iterable

from llmchat.domain import kv
from llmchat.domain.model import LayerCache
from llmchat.domain.plan import Kv


def with_layer(cache: LayerCache, context: int, policy: Kv) -> int:
    """Bytes that lie with the layer, on the device that executes it."""
    if policy == "ram":
        return kv.beside_ram(cache, context)
    return (kv.eight_bit(cache) if policy == "8bit" else cache).size(context)


def in_ram(caches: Iterable[LayerCache], context: int, policy: Kv) -> int:
    """Bytes that lie in RAM, wherever the layers are."""
    return sum(kv.in_ram(cache, context) for cache in caches) if policy == "ram" else 0


def staging(caches: Iterable[LayerCache], context: int, policy: Kv) -> int:
    """Bytes on each GPU through which the KV cache passes, or in which it is expanded to 16 bit."""
    if policy == "ram":
        return kv.staging(caches, context)
    return kv.expanded(caches, context) if policy == "8bit" else 0
