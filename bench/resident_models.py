"""Checkpoints of ten architectures, 130 to 300 MB of random bf16 weights each, with SmolLM2's tokenizer."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    DeepseekV3Config,
    Gemma3TextConfig,
    GPT2Config,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    Phi3Config,
    Qwen3Config,
    Qwen3NextConfig,
)

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
WINDOW = 256
TOKENS: dict[str, Any] = {"vocab_size": 49152, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
"""SmolLM2's."""
SIZES: dict[str, Any] = {
    **TOKENS,
    "hidden_size": 640,
    "intermediate_size": 1792,
    "num_hidden_layers": 10,
    "num_attention_heads": 10,
    "num_key_value_heads": 5,
    "max_position_embeddings": 2048,
}
EXPERTS: dict[str, Any] = {**SIZES, "intermediate_size": 512, "num_hidden_layers": 6}

BASE = "base"
"""Next to no weights: what is held beside them."""
CONFIGS: dict[str, Any] = {
    BASE: LlamaConfig(
        **SIZES | {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1},
        tie_word_embeddings=True,
    ),
    "Llama": LlamaConfig(**SIZES),
    "GPT-2": GPT2Config(**TOKENS, n_embd=768, n_layer=12, n_head=12, n_positions=1024),
    "Mistral (window 256)": MistralConfig(**SIZES, sliding_window=WINDOW),
    "Gemma-3": Gemma3TextConfig(**SIZES | {"num_hidden_layers": 18}, head_dim=64, sliding_window=WINDOW),
    "Phi-3": Phi3Config(**SIZES),
    "Mixtral": MixtralConfig(**EXPERTS, num_local_experts=8, num_experts_per_tok=2),
    "DeepSeek-V3 (MLA)": DeepseekV3Config(
        **EXPERTS | {"num_key_value_heads": 10},
        moe_intermediate_size=384,
        n_routed_experts=8,
        n_group=2,
        topk_group=1,
        num_experts_per_tok=2,
        first_k_dense_replace=1,
        q_lora_rank=192,
        kv_lora_rank=128,
        qk_rope_head_dim=32,
        qk_nope_head_dim=64,
        v_head_dim=64,
    ),
    "Qwen3-Next (linear)": Qwen3NextConfig(
        **EXPERTS | {"num_hidden_layers": 8},
        head_dim=64,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=384,
        shared_expert_intermediate_size=384,
        linear_num_value_heads=10,
        linear_num_key_heads=5,
        linear_key_head_dim=64,
        linear_value_head_dim=64,
    ),
    "gpt-oss": GptOssConfig(
        **EXPERTS, head_dim=64, num_local_experts=8, num_experts_per_tok=2, sliding_window=WINDOW
    ),
    "Qwen3": Qwen3Config(**SIZES, head_dim=128),
}


def make(name: str, folder: Path, tokenizer: Path) -> Path:
    """Write the checkpoint ``name``, seed 0, to ``folder``; ``tokenizer``: a folder with a tokenizer's files."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS[name], dtype=torch.bfloat16)
    model.save_pretrained(folder)
    for file in TOKENIZER_FILES:
        shutil.copy(tokenizer / file, folder / file)
    return folder
