"""The KV cache of models that are not plain attention: right in pieces, or never fed in pieces."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as t
from transformers import AutoModelForCausalLM

from llmchat.engine.reply.context import CONTINUING, Context
from llmchat.errors import ModelError

SIZES: dict[str, Any] = {
    "vocab_size": 384,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LINEAR: dict[str, Any] = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
MAMBA: dict[str, Any] = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_chunk_size": 8}
MIXED = ["linear_attention", "full_attention"] * 2
SHORT = {"vocab_size": 384, "hidden_size": 64, "num_hidden_layers": 2}

RECURRENT: dict[str, Any] = {
    "falcon_h1": lambda: t.FalconH1Config(**SIZES, **MAMBA | {"mamba_n_heads": 4}, mamba_d_ssm=64),
    "granitemoehybrid": lambda: t.GraniteMoeHybridConfig(
        **SIZES,
        **MAMBA,
        layer_types=["mamba", "attention"] * 2,
        num_local_experts=0,
        shared_intermediate_size=96,
    ),
    "lfm2": lambda: t.Lfm2Config(**SIZES, layer_types=["conv", "full_attention"] * 2),
    "lfm2_moe": lambda: t.Lfm2MoeConfig(
        **SIZES, **EXPERTS, layer_types=["conv", "full_attention"] * 2, num_dense_layers=1
    ),
    "mamba2": lambda: t.Mamba2Config(**SHORT, num_heads=8, head_dim=16, state_size=16, n_groups=1, chunk_size=8),
    "nemotron_h": lambda: t.NemotronHConfig(
        **{k: v for k, v in SIZES.items() if k != "num_hidden_layers"},
        layers_block_type=["mamba", "attention"] * 2,
        head_dim=16,
        ssm_state_size=16,
        mamba_num_heads=8,
        mamba_head_dim=16,
        n_groups=2,
        chunk_size=8,
    ),
    "olmo_hybrid": lambda: t.OlmoHybridConfig(**SIZES, layer_types=MIXED, **LINEAR | {"linear_num_key_heads": 4}),
    "qwen3_5_moe_text": lambda: t.Qwen3_5MoeTextConfig(
        **SIZES, **EXPERTS, **LINEAR, head_dim=16, layer_types=MIXED, shared_expert_intermediate_size=32
    ),
    "qwen3_5_text": lambda: t.Qwen3_5TextConfig(**SIZES, **LINEAR, head_dim=16, layer_types=MIXED),
    "qwen3_next": lambda: t.Qwen3NextConfig(
        **SIZES, **EXPERTS, **LINEAR, head_dim=16, shared_expert_intermediate_size=32
    ),
    "jamba": lambda: t.JambaConfig(
        **SIZES, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, num_experts=2
    ),
    "mamba": lambda: t.MambaConfig(**SHORT, state_size=16),
    "recurrent_gemma": lambda: t.RecurrentGemmaConfig(
        **SHORT | {"num_hidden_layers": 3},
        intermediate_size=96,
        num_attention_heads=4,
        lru_width=64,
        attention_window_size=16,
    ),
}
CPU = torch.device("cpu")


def model(config: Any) -> Any:
    torch.manual_seed(0)
    built = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 2 * parameter.shape[-1] ** -0.5)
    return built


def test_every_model_that_is_trusted_is_tested() -> None:
    assert set(RECURRENT) >= CONTINUING


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_models_read_the_same_in_pieces_or_all_at_once(name: str) -> None:
    built = model(RECURRENT[name]())
    ids = [5 + (7 * index * index) % 370 for index in range(40)]
    whole = Context(built, CPU).feed(ids)
    context = Context(built, CPU)
    assert context.extends == (name in CONTINUING)
    step = 13 if context.extends else 40
    for begin in range(0, 40, step):
        logits = context.feed(ids[begin : begin + step])
    torch.testing.assert_close(logits, whole, atol=1e-3, rtol=1e-3)
    longer = [*ids, 9, 11, 13]
    assert context.rewind(longer) == (40 if context.extends else 0)
    logits = context.feed(longer[len(context) :])
    torch.testing.assert_close(logits, Context(built, CPU).feed(longer), atol=1e-3, rtol=1e-3)
    changed = [*ids[:20], 9, 11, 13]
    assert context.rewind(changed) == 0
    torch.testing.assert_close(context.feed(changed), Context(built, CPU).feed(changed), atol=1e-3, rtol=1e-3)


def test_a_model_that_ignores_the_cache_is_refused() -> None:
    """RWKV keeps its state elsewhere: every token would be its first."""
    with pytest.raises(ModelError, match="KV cache"):
        Context(model(t.RwkvConfig(**SHORT)), CPU).feed([5, 6, 7])


def test_a_crop_that_goes_wrong_gives_the_cache_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer that says it was cropped and was not must not be trusted."""
    context = Context(model(t.LlamaConfig(**SIZES)), CPU)
    context.feed([5, 6, 7, 8, 9])
    last = context._cache.layers[-1]
    monkeypatch.setattr(last, "crop", lambda count: None)
    assert context.rewind([5, 6, 7, 1, 1]) == 0
    assert not context.bytes() and len(context) == 0
    assert context._cache.layers == [] or last not in context._cache.layers


def test_rewinding_keeps_at_most_all_but_one_token_of_the_prompt() -> None:
    context = Context(model(t.LlamaConfig(**SIZES)), CPU)
    first = context.feed([5, 6, 7, 8])
    assert context.rewind([5, 6, 7, 8]) == 3
    torch.testing.assert_close(context.feed([8]), first)
    assert context.rewind([5, 6]) == 1
    assert context.rewind([6]) == 0
    assert context.bytes() == {}
