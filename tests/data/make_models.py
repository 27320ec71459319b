"""Writes models/*.json: real models' facts by arithmetic from their published configs. No weights, no network.

python tests/data/make_models.py
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from llmchat.domain.model import LayerCache, ModelFacts, Module

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Shape:
    """What config.json says of a Llama-like decoder."""

    id: str
    architecture: str
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    vocab: int
    max_context: int
    dtype: str = "bfloat16"
    tied: bool = False
    norms: int = 2
    """Of the hidden size, in a layer."""
    head_norms: int = 0
    """Of the head size, in a layer: queries and keys."""
    window: int | None = None
    full_every: int = 1
    """With a window, every so many layers is one without."""
    experts: int = 1
    chosen: int = 1
    has_chat_template: bool = True
    unknown: tuple[str, ...] = field(default=())

    @property
    def item(self) -> int:
        return 4 if self.dtype == "float32" else 2


SHAPES = (
    Shape(
        "HuggingFaceTB/SmolLM2-135M-Instruct", "LlamaForCausalLM", 576, 1536, 30, 9, 3, 64, 49152, 8192,
        tied=True,
    ),
    Shape("meta-llama/Llama-3.1-8B-Instruct", "LlamaForCausalLM", 4096, 14336, 32, 32, 8, 128, 128256, 131072),
    Shape("meta-llama/Llama-3.1-70B-Instruct", "LlamaForCausalLM", 8192, 28672, 80, 64, 8, 128, 128256, 131072),
    Shape(
        "meta-llama/Llama-3.1-405B-Instruct", "LlamaForCausalLM", 16384, 53248, 126, 128, 8, 128, 128256, 131072,
    ),
    Shape(
        "WizardLMTeam/WizardLM-13B-V1.2", "LlamaForCausalLM", 5120, 13824, 40, 40, 40, 128, 32000, 4096, "float16",
        has_chat_template=False,
    ),
    Shape(
        "google/gemma-3-27b-it", "Gemma3ForCausalLM", 5376, 21504, 62, 32, 16, 128, 262208, 131072,
        tied=True, norms=4, head_norms=2, window=1024, full_every=6,
    ),
    Shape(
        "mistralai/Mixtral-8x7B-Instruct-v0.1", "MixtralForCausalLM", 4096, 14336, 32, 32, 8, 128, 32000, 32768,
        experts=8, chosen=2,
    ),
)  # fmt: skip


def decoder(shape: Shape) -> ModelFacts:
    """Embedding, rotary tables, layers, norm, head."""
    table = shape.vocab * shape.hidden * shape.item
    row = shape.hidden * shape.item
    angles = shape.head_size // 2 * 4
    rotary = angles * (2 if shape.window is None else 4)
    modules = (
        Module(name="model.embed_tokens", kind="embedding", bytes=table, active_bytes=row, largest_tensor=table),
        Module(
            name="model.rotary_emb",
            kind="other",
            bytes=rotary,
            active_bytes=rotary,
            largest_tensor=angles,
        ),
        *(_layer(shape, index) for index in range(shape.layers)),
        Module(name="model.norm", kind="norm", bytes=row, active_bytes=row, largest_tensor=row),
        Module(
            name="lm_head",
            kind="head",
            bytes=0 if shape.tied else table,
            active_bytes=table,
            largest_tensor=0 if shape.tied else table,
        ),
    )
    return ModelFacts(
        id=shape.id,
        architecture=shape.architecture,
        dtype=shape.dtype,
        parameters=(sum(m.bytes for m in modules) - rotary) // shape.item,
        hidden_size=shape.hidden,
        vocab_size=shape.vocab,
        max_context=shape.max_context,
        modules=modules,
        tied=(("model.embed_tokens", "lm_head"),) if shape.tied else (),
        has_chat_template=shape.has_chat_template,
        unknown=shape.unknown,
    )


def _layer(shape: Shape, index: int) -> Module:
    attention = shape.hidden * shape.head_size * 2 * (shape.heads + shape.kv_heads)
    mlp = 3 * shape.hidden * shape.intermediate * shape.experts
    router = shape.hidden * shape.experts if shape.experts > 1 else 0
    small = shape.norms * shape.hidden + shape.head_norms * shape.head_size + router
    linear = attention + (mlp if shape.experts == 1 else 0)
    fused = 2 * mlp // 3 if shape.experts > 1 else shape.hidden * shape.intermediate
    full = shape.window is None or (index + 1) % shape.full_every == 0
    return Module(
        name=f"model.layers.{index}",
        kind="layer",
        bytes=(attention + mlp + small) * shape.item,
        linear_params=linear,
        linear_bytes=linear * shape.item,
        active_bytes=(attention + mlp * shape.chosen // shape.experts + small) * shape.item,
        largest_tensor=fused * shape.item,
        cache=LayerCache(
            per_token=2 * shape.kv_heads * shape.head_size * shape.item, window=None if full else shape.window
        ),
    )


def gpt2() -> ModelFacts:
    """openai-community/gpt2: learned positions, biases, float32 weights, Conv1D instead of Linear."""
    hidden, layers, vocab, positions, item = 768, 12, 50257, 1024, 4
    linear = 12 * hidden * hidden
    small = 9 * hidden + 4 * hidden
    table = vocab * hidden * item
    layer = [
        Module(
            name=f"transformer.h.{index}",
            kind="layer",
            bytes=(linear + small) * item,
            linear_params=linear,
            linear_bytes=linear * item,
            active_bytes=(linear + small) * item,
            largest_tensor=4 * hidden * hidden * item,
            cache=LayerCache(per_token=2 * hidden * item),
        )
        for index in range(layers)
    ]
    row, places, norm = hidden * item, positions * hidden * item, 2 * hidden * item
    modules = (
        Module(name="transformer.wte", kind="embedding", bytes=table, active_bytes=row, largest_tensor=table),
        Module(name="transformer.wpe", kind="other", bytes=places, active_bytes=row, largest_tensor=places),
        *layer,
        Module(name="transformer.ln_f", kind="norm", bytes=norm, active_bytes=norm, largest_tensor=row),
        Module(name="lm_head", kind="head", bytes=0, active_bytes=table, largest_tensor=0),
    )
    return ModelFacts(
        id="openai-community/gpt2",
        architecture="GPT2LMHeadModel",
        dtype="float32",
        parameters=sum(m.bytes for m in modules) // item,
        hidden_size=hidden,
        vocab_size=vocab,
        max_context=positions,
        modules=modules,
        tied=(("transformer.wte", "lm_head"),),
        has_chat_template=False,
    )


def main() -> None:
    folder = HERE / "models"
    folder.mkdir(exist_ok=True)
    for facts in (*map(decoder, SHAPES), gpt2()):
        name = facts.id.rsplit("/", 1)[-1].lower()
        text = msgspec.json.format(msgspec.json.encode(facts), indent=1)
        (folder / f"{name}.json").write_bytes(text + b"\n")


if __name__ == "__main__":
    main()
