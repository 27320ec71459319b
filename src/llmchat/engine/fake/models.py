"""Facts of Llama-shaped models by arithmetic, for the fake engine, in bfloat16 sizes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmchat.domain.model import LayerCache, ModelFacts, Module

ITEM = 2
"""Bytes of a number in bfloat16."""


@dataclass(frozen=True)
class Shape:
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    context: int
    tied: bool = False


SHAPES = {
    "70b": Shape(8192, 28672, 80, 64, 8, 128256, 131072),
    "13b": Shape(5120, 13824, 40, 40, 40, 32000, 4096),
    "8b": Shape(4096, 14336, 32, 32, 8, 128256, 131072),
    "smollm2": Shape(576, 1536, 30, 9, 3, 49152, 8192, tied=True),
}
"""From the config.json of Llama-3.1-70B, Llama-2-13b, Llama-3.1-8B and SmolLM2-135M; looked for in this order."""


def facts(model_id: str, path: Path, revision: str = "") -> ModelFacts:
    """Of the model's own config where that describes a Llama shape, else by the size in its name, else of 8B."""
    name = model_id.rstrip("/").rsplit("/", 1)[-1].lower()
    shape = _configured(path / "config.json") or next(
        (shape for size, shape in SHAPES.items() if size in name), SHAPES["8b"]
    )
    return build(shape, model_id, revision)


def build(shape: Shape, model_id: str, revision: str = "") -> ModelFacts:
    modules = (
        _embedding(shape),
        *(_layer(shape, index) for index in range(shape.layers)),
        Module(name="model.norm", kind="norm", bytes=shape.hidden * ITEM, active_bytes=shape.hidden * ITEM),
        _head(shape),
    )
    return ModelFacts(
        id=model_id,
        revision=revision,
        architecture="LlamaForCausalLM",
        dtype="bfloat16",
        parameters=sum(module.bytes for module in modules) // ITEM,
        hidden_size=shape.hidden,
        vocab_size=shape.vocab,
        max_context=shape.context,
        modules=modules,
        tied=(("model.embed_tokens", "lm_head"),) if shape.tied else (),
    )


def _embedding(shape: Shape) -> Module:
    size = shape.vocab * shape.hidden * ITEM
    return Module(
        name="model.embed_tokens",
        kind="embedding",
        bytes=size,
        active_bytes=shape.hidden * ITEM,
        largest_tensor=size,
    )


def _head(shape: Shape) -> Module:
    size = shape.vocab * shape.hidden * ITEM
    held = 0 if shape.tied else size
    return Module(name="lm_head", kind="head", bytes=held, active_bytes=size, largest_tensor=held)


def _layer(shape: Shape, index: int) -> Module:
    head = shape.hidden // shape.heads
    keys = 2 * shape.kv_heads * head
    linear = 2 * shape.hidden**2 + shape.hidden * keys + 3 * shape.hidden * shape.intermediate
    size = (linear + 2 * shape.hidden) * ITEM
    return Module(
        name=f"model.layers.{index}",
        kind="layer",
        bytes=size,
        linear_params=linear,
        linear_bytes=linear * ITEM,
        active_bytes=size,
        largest_tensor=shape.hidden * shape.intermediate * ITEM,
        cache=LayerCache(per_token=keys * ITEM),
    )


def _configured(file: Path) -> Shape | None:
    """The shape in a config.json; None where there is none or it is of another kind."""
    try:
        config: dict[str, Any] = json.loads(file.read_bytes())
        return Shape(
            hidden=config["hidden_size"],
            intermediate=config["intermediate_size"],
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            kv_heads=config.get("num_key_value_heads") or config["num_attention_heads"],
            vocab=config["vocab_size"],
            context=config.get("max_position_embeddings", 8192),
            tied=config.get("tie_word_embeddings", False),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
