"""Sampling: seeds, transformers' own draws, values that mean nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from llmchat.domain.chat import Sampling
from llmchat.engine.reply.sampling import UNSAID, Drawing, drawing
from llmchat.errors import UsageError

from . import tiny
from .tiny import Talk, plain, prompt

Picked = list[int]


@pytest.fixture
def picked(monkeypatch: pytest.MonkeyPatch) -> Picked:
    """Every token that is picked, of all replies."""
    return tiny.record(monkeypatch)


def test_the_same_seed_gives_the_same_text_and_another_one_another(picked: Picked) -> None:
    talk = Talk(tiny.loaded("llama"))
    wanted = Sampling(temperature=1.5, top_p=0.95, top_k=50, seed=7)
    runs = []
    for seed in (7, 7, 8):
        picked.clear()
        talk.ask("hello", sampling=wanted, seed=seed, max_tokens=24)
        runs.append(list(picked))
    assert runs[0] == runs[1] != runs[2]


def test_sampling_draws_what_transformers_draws(picked: Picked) -> None:
    """Same processors in the same order: with the same random numbers the same tokens."""
    talk = Talk(tiny.loaded("llama"))
    how = Sampling(temperature=0.8, top_p=0.9, top_k=40, repetition_penalty=1.3, seed=11)
    talk.ask("hello", sampling=how, max_tokens=16)
    torch.manual_seed(11)
    ids = torch.tensor([prompt(talk, "hello")])
    out = talk.loaded.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=True,
        temperature=0.8,
        top_p=0.9,
        top_k=40,
        repetition_penalty=1.3,
        max_new_tokens=16,
        pad_token_id=0,
    )
    assert picked == out[0, ids.shape[1] :].tolist()


def test_the_repetition_penalty_counts_when_greedy_too(picked: Picked) -> None:
    talk = Talk(tiny.loaded("llama"))
    talk.ask("hello", repetition_penalty=1.5, max_tokens=16)
    ids = prompt(talk, "hello")
    assert picked == plain(talk.loaded.model, ids, 16, repetition_penalty=1.5)
    assert picked != plain(talk.loaded.model, ids, 16)


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"repetition_penalty": 0.0},
        {"max_tokens": 0},
        {"seed": -1},
    ],
)
def test_values_without_meaning_are_named(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(values))):
        Talk(tiny.loaded()).ask("hello", **values)


LLAMA = GenerationConfig(do_sample=True, temperature=0.6, top_p=0.9, top_k=20)


@pytest.mark.parametrize(
    ("sampling", "config", "how"),
    [
        (Sampling(), None, UNSAID),
        (Sampling(), GenerationConfig(), UNSAID),
        (Sampling(), LLAMA, Drawing(0.6, 0.9, 20, 1.0)),
        (Sampling(temperature=0.0), LLAMA, Drawing(0.0, 0.9, 20, 1.0)),
        (Sampling(top_k=0, repetition_penalty=1.2), LLAMA, Drawing(0.6, 0.9, 0, 1.2)),
        (Sampling(), GenerationConfig(do_sample=False, temperature=0.6), UNSAID._replace(temperature=0.0)),
        (Sampling(temperature=0.9), GenerationConfig(do_sample=False), UNSAID._replace(temperature=0.9)),
    ],
)
def test_what_the_person_leaves_open_is_as_the_authors_set_it(
    sampling: Sampling, config: GenerationConfig | None, how: Drawing
) -> None:
    assert drawing(sampling, config) == how


def test_a_reply_is_drawn_as_the_authors_set_it(picked: Picked) -> None:
    talk = Talk(tiny.loaded("llama"))
    talk.loaded.model.generation_config.do_sample = False
    talk.ask("hello", sampling=Sampling(), max_tokens=16)
    assert picked == plain(talk.loaded.model, prompt(talk, "hello"), 16)
