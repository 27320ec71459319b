"""The table of well-known families against the facts that the engine finds, and what is offered from it."""

from __future__ import annotations

import pytest
from planner_cases import GEMMA_27B, LLAMA_8B, LLAMA_70B, LLAMA_405B, MIXTRAL, SMOL, WIZARD_13B, model

from llmchat.domain.advice import families
from llmchat.domain.model import ModelFacts


def known(id: str) -> ModelFacts:
    found = [
        families.facts(family, shape) for family in families.FAMILIES for shape in family.members if shape.id == id
    ]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("facts", "id"),
    [
        (LLAMA_8B, "meta-llama/Llama-3.1-8B-Instruct"),
        (LLAMA_70B, "meta-llama/Llama-3.3-70B-Instruct"),
        (LLAMA_405B, "meta-llama/Llama-3.1-405B-Instruct"),
        (WIZARD_13B, "meta-llama/Llama-2-13b-chat-hf"),
        (SMOL, "HuggingFaceTB/SmolLM2-135M-Instruct"),
    ],
)
def test_arithmetic_agrees_with_the_engine(facts: str, id: str) -> None:
    mine, real = known(id), model(facts)
    assert mine.weight_bytes == pytest.approx(real.weight_bytes, rel=1e-3)
    assert mine.kv_bytes(4096) == real.kv_bytes(4096)
    assert len(mine.layers) == len(real.layers)
    assert mine.hidden_size == real.hidden_size


def test_gemma_agrees_but_for_its_vision_tower() -> None:
    real = model(GEMMA_27B)
    text = sum(
        module.bytes for module in real.modules if "vision" not in module.name and "projector" not in module.name
    )
    assert known("google/gemma-3-27b-it").weight_bytes == pytest.approx(text, rel=1e-3)
    assert known("google/gemma-3-27b-it").kv_bytes(131072) == real.kv_bytes(131072)


@pytest.mark.parametrize(
    ("facts", "first"),
    [
        (LLAMA_405B, "meta-llama/Llama-3.3-70B-Instruct"),
        (LLAMA_70B, "meta-llama/Llama-3.1-8B-Instruct"),
        (WIZARD_13B, "meta-llama/Llama-2-7b-chat-hf"),
        (MIXTRAL, "mistralai/Mistral-Nemo-Instruct-2407"),
        ("qwen3-30b-a3b", "Qwen/Qwen3-14B"),
        (GEMMA_27B, "google/gemma-3-12b-it"),
        (SMOL, None),
        ("gpt2", None),
    ],
)
def test_the_next_smaller_of_the_family_is_offered(facts: str, first: str | None) -> None:
    offered = [found.id for found in families.smaller(model(facts))]
    assert (offered[0] if offered else None) == first
    sizes = [found.parameters for found in families.smaller(model(facts))]
    assert sizes == sorted(sizes, reverse=True)
    assert all(size < model(facts).parameters for size in sizes)
