"""Tiny configs of architectures that differ in what memory sees: attention, experts, ties, fused layers."""

from __future__ import annotations

from typing import Any

from transformers import (
    DeepseekV3Config,
    Gemma3TextConfig,
    GPT2Config,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    OPTConfig,
    Phi3Config,
    Qwen3Config,
    Qwen3NextConfig,
)

SIZES: dict[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
WINDOW = 6

CONFIGS: dict[str, Any] = {
    "llama": LlamaConfig(**SIZES),
    "llama-tied": LlamaConfig(**SIZES, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SIZES, head_dim=32),
    "mistral": MistralConfig(**SIZES, sliding_window=WINDOW),
    "gemma3": Gemma3TextConfig(**SIZES | {"num_hidden_layers": 7}, head_dim=16, sliding_window=WINDOW),
    "gpt2": GPT2Config(vocab_size=128, n_embd=64, n_layer=3, n_head=4, bos_token_id=1, eos_token_id=2),
    "opt": OPTConfig(
        vocab_size=128,
        hidden_size=64,
        word_embed_proj_dim=32,
        ffn_dim=96,
        num_hidden_layers=3,
        num_attention_heads=4,
    ),
    "phi3": Phi3Config(**SIZES),
    "gpt-oss": GptOssConfig(
        **SIZES, head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW
    ),
    "mixtral": MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2),
    "deepseek-v3": DeepseekV3Config(
        **SIZES | {"num_key_value_heads": 4},
        moe_intermediate_size=32,
        n_routed_experts=8,
        n_group=2,
        topk_group=1,
        num_experts_per_tok=2,
        first_k_dense_replace=1,
        q_lora_rank=24,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        v_head_dim=16,
        qk_nope_head_dim=16,
    ),
    "qwen3-next": Qwen3NextConfig(
        **SIZES | {"num_hidden_layers": 4},
        head_dim=16,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
    ),
}
