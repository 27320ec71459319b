"""What a device needs beside weights and KV cache: counted before anything is placed."""

from __future__ import annotations

from llmchat.domain.hardware import Gpu
from llmchat.domain.memory import GIB
from llmchat.domain.model import ModelFacts
from llmchat.domain.placing.fill import Space
from llmchat.domain.plan import Precision

CUDA_CONTEXT = GIB // 2
"""Bytes of a CUDA context with its loaded kernels: 0.4-0.8 GiB are seen, 0.5 is assumed until measured."""
CHUNK = 512
"""Tokens of a prompt that are prefilled at a time."""
LOADING_COPIES = 1
"""Of a layer's largest tensor, beyond the weights themselves, while loading: experts' parts beside the fused whole
(transformers 5.24 frees them one by one, ``core_model_loading.py``), or 16-bit beside quantized weights."""
INT8_COPIES = 4
"""Of a layer's largest tensor as published, in 8 bit while a prompt is read: an 8-billion Llama held 0.5 GiB more
on an H200 than with weights as published (bitsandbytes 0.50, 2026-12-01)."""
LOGITS_COPIES = 4
"""Of the last token's logits in float32, while sampling: logits, sorted, probabilities, cumulated."""
HIDDEN_COPIES = 8
"""Of the hidden states: residual, norm (float32 counts twice), queries, keys, values, attention's output, sum."""
MLP_COPIES = 3
"""Of the intermediate states: gate, up, product."""
MASK_BYTES = 3
"""A boolean attention mask and its 16-bit form, per token of the chunk and of the context."""
KV_GROWTH_COPIES = 1
"""Of one layer's KV cache: it grows by being copied into a larger room, old and new side by side. Keys, then
values, so that it is half a copy; the other half is for the holes that leaves."""


def cuda_context(gpu: Gpu) -> int:
    """Bytes of a CUDA context there, measured or assumed."""
    return CUDA_CONTEXT if gpu.context is None else gpu.context


def transient(model: ModelFacts, context: int, precision: Precision) -> Space:
    """Bytes that each device which runs a part of the model needs for a moment."""
    largest = max((module.largest_tensor for module in model.layers), default=0)
    extra = INT8_COPIES * largest if precision is Precision.INT8 else 0
    return Space(LOADING_COPIES * largest, activations(model, context, largest) + extra)


def activations(model: ModelFacts, context: int, largest: int) -> int:
    """Bytes in flight while a chunk of CHUNK tokens is prefilled with ``context`` tokens in the KV cache."""
    item = 4 if model.dtype == "float32" else 2
    hidden = model.hidden_size
    intermediate = largest // item // max(1, hidden)
    states = CHUNK * item * (HIDDEN_COPIES * hidden + MLP_COPIES * intermediate)
    logits = LOGITS_COPIES * 4 * model.vocab_size
    mask = MASK_BYTES * CHUNK * context
    kv = max((module.cache.size(context) for module in model.modules), default=0)
    return states + logits + mask + KV_GROWTH_COPIES * kv + _expanded_kv(model, context, item)


def _expanded_kv(model: ModelFacts, context: int, item: int) -> int:
    """Keys and values repeated for every query head: what transformers' masked SDPA does under grouped queries
    (``repeat_kv``), and what MLA does with its latent cache."""
    full = 2 * model.hidden_size * item if model.attention_bytes is None else model.attention_bytes
    grouped = [m.cache for m in model.modules if 0 < m.cache.per_token < full]
    return max((full * min(context, cache.window or context) for cache in grouped), default=0)
