"""Well-known families of models by size: what to offer instead of one that is too large.

Figures are those of each model's config.json on the Hugging Face hub. The facts made from them are arithmetic,
good for a first word; before a model is loaded it is looked at itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from llmchat.domain.model import LayerCache, ModelFacts, Module

ITEM = 2
"""Bytes of a 16-bit weight."""


class Shape(NamedTuple):
    """A decoder with gated MLPs and grouped queries."""

    id: str
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    tied: bool = False


class Family(NamedTuple):
    architecture: str
    vocab: int
    max_context: int
    members: tuple[Shape, ...]
    """The largest first."""
    window: int | None = None
    full_every: int = 1
    """With a window, every so many layers is one without."""


FAMILIES = (
    Family(
        "LlamaForCausalLM", 128256, 131072,
        (
            Shape("meta-llama/Llama-3.1-405B-Instruct", 16384, 53248, 126, 128, 8, 128),
            Shape("meta-llama/Llama-3.3-70B-Instruct", 8192, 28672, 80, 64, 8, 128),
            Shape("meta-llama/Llama-3.1-8B-Instruct", 4096, 14336, 32, 32, 8, 128),
            Shape("meta-llama/Llama-3.2-3B-Instruct", 3072, 8192, 28, 24, 8, 128, tied=True),
            Shape("meta-llama/Llama-3.2-1B-Instruct", 2048, 8192, 16, 32, 8, 64, tied=True),
        ),
    ),
    Family(
        "LlamaForCausalLM", 32000, 4096,
        (
            Shape("meta-llama/Llama-2-70b-chat-hf", 8192, 28672, 80, 64, 8, 128),
            Shape("meta-llama/Llama-2-13b-chat-hf", 5120, 13824, 40, 40, 40, 128),
            Shape("meta-llama/Llama-2-7b-chat-hf", 4096, 11008, 32, 32, 32, 128),
        ),
    ),
    Family(
        "LlamaForCausalLM", 49152, 8192,
        (
            Shape("HuggingFaceTB/SmolLM2-1.7B-Instruct", 2048, 8192, 24, 32, 32, 64, tied=True),
            Shape("HuggingFaceTB/SmolLM2-360M-Instruct", 960, 2560, 32, 15, 5, 64, tied=True),
            Shape("HuggingFaceTB/SmolLM2-135M-Instruct", 576, 1536, 30, 9, 3, 64, tied=True),
        ),
    ),
    Family(
        "Qwen3ForCausalLM", 151936, 40960,
        (
            Shape("Qwen/Qwen3-32B", 5120, 25600, 64, 64, 8, 128),
            Shape("Qwen/Qwen3-14B", 5120, 17408, 40, 40, 8, 128),
            Shape("Qwen/Qwen3-8B", 4096, 12288, 36, 32, 8, 128),
            Shape("Qwen/Qwen3-4B", 2560, 9728, 36, 32, 8, 128, tied=True),
            Shape("Qwen/Qwen3-1.7B", 2048, 6144, 28, 16, 8, 128, tied=True),
            Shape("Qwen/Qwen3-0.6B", 1024, 3072, 28, 16, 8, 128, tied=True),
        ),
    ),
    Family(
        "Qwen2ForCausalLM", 152064, 32768,
        (
            Shape("Qwen/Qwen2.5-72B-Instruct", 8192, 29568, 80, 64, 8, 128),
            Shape("Qwen/Qwen2.5-32B-Instruct", 5120, 27648, 64, 40, 8, 128),
            Shape("Qwen/Qwen2.5-14B-Instruct", 5120, 13824, 48, 40, 8, 128),
            Shape("Qwen/Qwen2.5-7B-Instruct", 3584, 18944, 28, 28, 4, 128),
        ),
    ),
    Family(
        "Gemma3ForCausalLM", 262208, 131072,
        (
            Shape("google/gemma-3-27b-it", 5376, 21504, 62, 32, 16, 128, tied=True),
            Shape("google/gemma-3-12b-it", 3840, 15360, 48, 16, 8, 256, tied=True),
            Shape("google/gemma-3-4b-it", 2560, 10240, 34, 8, 4, 256, tied=True),
        ),
        window=1024, full_every=6,
    ),
    Family(
        "MistralForCausalLM", 131072, 32768,
        (
            Shape("mistralai/Mistral-Small-24B-Instruct-2501", 5120, 32768, 40, 32, 8, 128),
            Shape("mistralai/Mistral-Nemo-Instruct-2407", 5120, 14336, 40, 32, 8, 128),
        ),
    ),
)  # fmt: skip

KIN = {
    "MixtralForCausalLM": "mistralai/Mistral-Nemo-Instruct-2407",
    "Qwen3MoeForCausalLM": "Qwen/Qwen3-14B",
    "Qwen3NextForCausalLM": "Qwen/Qwen3-32B",
    "Gemma3ForConditionalGeneration": "google/gemma-3-12b-it",
}
"""Architectures that are their family's largest, or of another make than its dense models: the first to offer."""


def smaller(model: ModelFacts) -> Iterator[ModelFacts]:
    """Facts of the smaller models of its family, the largest first; nothing for a model of no known family."""
    for family in FAMILIES:
        yield from (facts(family, shape) for shape in family.members if _is_smaller(family, shape, model))


def _is_smaller(family: Family, shape: Shape, model: ModelFacts) -> bool:
    first = next((s for s in family.members if s.id == KIN.get(model.architecture)), None)
    related = first is not None or (family.architecture == model.architecture and _same_words(family, model))
    limit = parameters(family, first) + 1 if first else model.parameters * 0.9
    return related and parameters(family, shape) < min(limit, model.parameters * 0.9)


def _same_words(family: Family, model: ModelFacts) -> bool:
    """By the vocabulary: fine-tunes add a few tokens to it, and Qwen2.5 pads it otherwise in small models."""
    return abs(family.vocab - model.vocab_size) < 512


def parameters(family: Family, shape: Shape) -> int:
    table = family.vocab * shape.hidden
    return table * (1 if shape.tied else 2) + shape.layers * _layer_parameters(shape) + shape.hidden


def _layer_parameters(shape: Shape) -> int:
    attention = shape.hidden * shape.head_size * 2 * (shape.heads + shape.kv_heads)
    return attention + 3 * shape.hidden * shape.intermediate + 2 * shape.hidden


def facts(family: Family, shape: Shape) -> ModelFacts:
    table, row = family.vocab * shape.hidden * ITEM, shape.hidden * ITEM
    own = 0 if shape.tied else table
    return ModelFacts(
        id=shape.id,
        architecture=family.architecture,
        dtype="bfloat16",
        parameters=parameters(family, shape),
        hidden_size=shape.hidden,
        vocab_size=family.vocab,
        max_context=family.max_context,
        modules=(
            Module(name="embed", kind="embedding", bytes=table, active_bytes=row, largest_tensor=table),
            *(_layer(family, shape, index) for index in range(shape.layers)),
            Module(name="norm", kind="norm", bytes=row, active_bytes=row, largest_tensor=row),
            Module(name="head", kind="head", bytes=own, active_bytes=table, largest_tensor=own),
        ),
        tied=(("embed", "head"),) if shape.tied else (),
    )


def _layer(family: Family, shape: Shape, index: int) -> Module:
    linear = _layer_parameters(shape) - 2 * shape.hidden
    full = family.window is None or (index + 1) % family.full_every == 0
    return Module(
        name=f"layers.{index}",
        kind="layer",
        bytes=_layer_parameters(shape) * ITEM,
        linear_params=linear,
        linear_bytes=linear * ITEM,
        active_bytes=_layer_parameters(shape) * ITEM,
        largest_tensor=shape.hidden * shape.intermediate * ITEM,
        cache=LayerCache(
            per_token=2 * shape.kv_heads * shape.head_size * ITEM, window=None if full else family.window
        ),
    )
