"""What a KV cache that grows by steps saves against transformers' own, which is made anew for every token.

    python bench/kv_growth.py FOLDER [--tokens 512 4000 7000]

Decodes greedily with the engine's own loop after so many tokens, with both in turn; prints the median of steps and
the ratio. FOLDER: a model in Hugging Face format; without it SmolLM2 as llmchat has converted it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, DynamicCache

from llmchat.engine import setup
from llmchat.engine.reply.context import Context
from llmchat.session.models.catalog import embedded_folder

STEPS, ROUNDS = 32, 3


def decode(context: Context, tokens: int) -> list[float]:
    """Seconds of each step after ``tokens`` others."""
    context.clear()
    logits = torch.zeros(1)
    for begin in range(0, tokens, 512):
        logits = context.feed([5 + n % 300 for n in range(begin, min(begin + 512, tokens))])
    seconds = []
    for _ in range(STEPS):
        started = time.perf_counter()
        logits = context.feed([int(logits.argmax())])
        seconds.append(time.perf_counter() - started)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=embedded_folder())
    parser.add_argument("--tokens", type=int, nargs="*", default=[512, 4000, 7000])
    arguments = parser.parse_args()
    setup.prepare()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = AutoModelForCausalLM.from_pretrained(arguments.folder, dtype=torch.bfloat16).to(device).eval()
    mine, plain = Context(model, device), Context(model, device)
    plain._new_cache = lambda: DynamicCache(config=model.config)  # type: ignore[method-assign]
    plain._cache = plain._new_cache()
    print("| tokens before | made anew, tok/s | by steps, tok/s | ratio |\n|---|---|---|---|")
    for tokens in arguments.tokens:
        steps: dict[str, list[float]] = {"anew": [], "steps": []}
        for _ in range(ROUNDS):
            steps["anew"] += decode(plain, tokens)
            steps["steps"] += decode(mine, tokens)
        anew, by_steps = (1 / statistics.median(found) for found in steps.values())
        print(f"| {tokens:,} | {anew:.1f} | {by_steps:.1f} | {by_steps / anew:.2f} |", flush=True)


if __name__ == "__main__":
    main()
