"""Random-weight checkpoints of real shapes: everything but the meaning, made in seconds, without a download.

    python bench/checkpoints.py llama-1b /tmp/llama-1b

The tokenizer knows every id of the vocabulary, so that the text of two runs is equal only if their tokens are.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

SHAPES: dict[str, dict[str, int]] = {
    "llama-tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 512,
    },
    # About 1.1 GB in bf16.
    "llama-1b": {
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 11,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 8192,
    },
    # meta-llama/Llama-3.1-8B, config.json.
    "llama-8b": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    },
}

CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ("<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")


def make_tokenizer(vocab_size: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE without merges: 256 bytes, the special tokens, and a word of its own for every other id."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*SPECIAL, *alphabet]
    words += [f"Ġw{number}" for number in range(vocab_size - len(words))]
    tokenizer = Tokenizer(models.BPE(vocab={word: index for index, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=SPECIAL[0], eos_token=SPECIAL[1])
    fast.add_special_tokens({"additional_special_tokens": list(SPECIAL[2:])})
    fast.chat_template = CHAT_TEMPLATE
    return fast


def make(shape: str, folder: Path, *, dtype: torch.dtype = torch.bfloat16, shard_bytes: int = 4 * 2**30) -> Path:
    """Write the checkpoint ``shape`` to ``folder``, unless it is there; weights are N(0, 4 / fan-in), seed 0:
    wide enough that greedy tokens depend on all of the context instead of repeating one.

    Tensors are drawn on the GPU where there is one and written shard by shard: RAM holds one shard.
    """
    if (folder / "model.safetensors.index.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    config = LlamaConfig(
        **SHAPES[shape],
        max_position_embeddings=131072,
        rope_theta=500000.0,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=1,
        dtype=dtype,
    )
    config.architectures = ["LlamaForCausalLM"]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device).manual_seed(0)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    shard: dict[str, torch.Tensor] = {}
    where: dict[str, str] = {}
    size = number = total = 0

    def flush() -> None:
        nonlocal shard, size, number
        number += 1
        name = f"model-{number:05}.safetensors"
        save_file(shard, folder / name, metadata={"format": "pt"})
        where.update(dict.fromkeys(shard, name))
        shard, size = {}, 0

    for name, parameter in model.named_parameters():
        value = torch.ones(parameter.shape, dtype=dtype)
        if parameter.ndim > 1:
            value = torch.empty(parameter.shape, dtype=dtype, device=device)
            value.normal_(0, 2 * parameter.shape[1] ** -0.5, generator=generator)
        shard[name] = value.cpu()
        size += value.nbytes
        total += value.nbytes
        if size >= shard_bytes:
            flush()
    if shard:
        flush()
    config.save_pretrained(folder)
    make_tokenizer(config.vocab_size).save_pretrained(folder)
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    make(arguments.shape, arguments.folder)
