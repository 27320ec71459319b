"""How fast a device multiplies, and how long a decoder layer takes that is next to nothing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch.nn.functional import linear
from transformers import LlamaConfig, LlamaForCausalLM

from llmchat.domain.chat import Sampling
from llmchat.domain.memory import CPU
from llmchat.engine.reply.context import Context
from llmchat.engine.reply.sampling import Sampler

SECONDS = 0.5
"""For one measurement, after its warm-up."""
PRODUCT_SECONDS = 0.1
"""For one measurement of a product of matrices: two on the CPU, one on each GPU."""
ROWS = 512
"""Tokens of a prompt that are prefilled at a time."""
LAYERS, WORDS, WARM_STEPS = 24, 32_768, 5
"""Of the tiny model that times launches and Python per layer. What a token takes once, such as the choice among
the words of the vocabulary, is shared out among about as many layers as real models have."""


def rate(step: Callable[[], object], size: int, wait: Callable[[], object], seconds: float = SECONDS) -> float:
    """Units/s of ``step``, which does ``size`` of them: the best of steps repeated for ``seconds`` after one to
    warm up, for what a busy machine adds is not the machine's. ``wait`` returns once the device has done them."""
    step()
    wait()
    best, end = float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:
        started = time.perf_counter()
        step()
        wait()
        best = min(best, time.perf_counter() - started)
    return size / best


def waiting(device: str) -> Callable[[], object]:
    """What waits until ``device`` has done all it was given."""
    return (lambda: None) if device == CPU else partial(torch.cuda.synchronize, device)


def matmul(device: str, dtype: torch.dtype, side: int) -> float:
    """FLOP/s of a product of ROWS rows with a square matrix, as prefilling does."""
    weight = torch.ones(side, side, dtype=dtype, device=device)
    rows = torch.ones(ROWS, side, dtype=dtype, device=device)
    with torch.inference_mode():
        return rate(lambda: linear(rows, weight), 2 * ROWS * side * side, waiting(device), PRODUCT_SECONDS)


def layer_overhead(device: str, dtype: torch.dtype) -> float:
    """Seconds per decoder layer and token that are not memory: the median decode step, with the engine's own loop,
    of a model that is soon read, but large enough for a CPU to share its products out among the cores. It launches
    what a Llama of any size launches: none of that depends on the width. Greedy: what drawing costs goes with the
    vocabulary, not with the layers."""
    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = LlamaForCausalLM(config).to(device, dtype).eval()
    context, sampler = Context(model, torch.device(device)), Sampler(Sampling(temperature=0.0), ())
    logits = context.feed([0])
    steps: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(steps) < WARM_STEPS or time.perf_counter() < end:
        started = time.perf_counter()
        logits = context.feed([sampler.pick(logits)])
        steps.append(time.perf_counter() - started)
    return statistics.median(steps[WARM_STEPS:] or steps) / LAYERS
