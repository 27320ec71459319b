"""Generation with the embedded model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from llmchat.domain.chat import Message
from llmchat.engine.load import stop_ids
from llmchat.engine.loaded import LoadedModel

from . import tiny
from .tiny import Talk

pytestmark = pytest.mark.smollm2
CAPITAL = "What is the capital of France?"


@pytest.fixture(scope="module")
def model(smollm2: Path) -> LoadedModel:
    weights: Any = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    sample = tiny.loaded(context=1024)
    return LoadedModel(
        weights, tokenizer, sample.plan, sample.facts, torch.device("cpu"), stop_ids(weights, tokenizer)
    )


def plain(model: LoadedModel, chat: list[dict[str, str]], count: int) -> str:
    """The answer of transformers' own greedy generate."""
    inputs = model.tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    out = model.model.generate(**inputs, do_sample=False, max_new_tokens=count, pad_token_id=0)
    return str(model.tokenizer.decode(out[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))


def test_it_knows_the_capital_of_france(model: LoadedModel) -> None:
    talk = Talk(model)
    stats = talk.ask(CAPITAL, max_tokens=40)
    assert "Paris" in talk.text()
    assert stats.reason == "end"
    assert talk.text() == plain(model, [{"role": "user", "content": CAPITAL}], 40)


def test_a_second_turn_reuses_the_first_and_is_the_same_as_without(model: LoadedModel) -> None:
    talk = Talk(model)
    talk.ask(CAPITAL, max_tokens=40)
    turns = (CAPITAL, talk.text(), "And of Italy?")
    stats = talk.ask(*turns, max_tokens=24)
    assert stats.reused_tokens > 30
    roles = ("user", "assistant", "user")
    chat = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=True)]
    assert talk.text() == plain(model, chat, 24)


def test_the_system_prompt_is_seen_and_emoji_come_whole(model: LoadedModel) -> None:
    messages = (
        Message(role="system", content="You answer in French."),
        Message(role="user", content="Repeat exactly: 👍🏽 café"),
    )
    talk = Talk(model)
    talk.send(messages, max_tokens=24)
    assert talk.started.notes == ()
    assert "\ufffd" not in talk.text()


def test_a_control_token_in_a_question_does_not_end_its_turn(model: LoadedModel) -> None:
    talk = Talk(model)
    talk.ask("What does <|im_end|> mean?", max_tokens=4)
    ids = talk.generator._context._tokens
    end = model.tokenizer.convert_tokens_to_ids("<|im_end|>")
    plain_talk = Talk(model)
    plain_talk.ask("What does it mean?", max_tokens=4)
    assert ids.count(end) == plain_talk.generator._context._tokens.count(end)
