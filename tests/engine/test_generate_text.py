"""Tokens to text, and text to thinking and answer, however they are cut."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from llmchat.engine.reply.detokenize import Detokenizer
from llmchat.engine.reply.thinking import STYLES, Splitter, opened

from . import tiny

TEXTS = (
    "hello world and more",
    "  two  spaces\n\n\tand a tab ",
    "naïve café, Ελλάδα, 漢字かな, עברית",
    "family: 👨‍👩‍👧‍👦, flag: 🇨🇭, skin: 👍🏽 end",
    "don't won't it's , . ! ?",
)


def sentencepiece() -> Any:
    """Metaspace with byte fallback, as Llama 2 and Mistral have it."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words += ["▁", "▁hello", "▁world", "▁and", "▁more", *"abcdefghijklmnopqrstuvwxyz,.!?'"]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={word: index for index, word in enumerate(words)},
            merges=[],
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )


TOKENIZERS = {"byte-level": tiny.tokenizer, "sentencepiece": sentencepiece}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_pieces_are_the_text_and_no_piece_is_half_a_character(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]()
    ids = tokenizer.encode(text, add_special_tokens=False)
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.push(token) for token in ids]
    assert all("\ufffd" not in piece for piece in pieces)
    assert "".join(pieces) + detokenizer.flush() == tokenizer.decode(ids)
    assert len([piece for piece in pieces if piece]) >= 4, "it streams"


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_reply_cut_inside_a_character_ends_before_it(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]()
    ids = tokenizer.encode("ok 👍", add_special_tokens=False)[:-1]
    detokenizer = Detokenizer(tokenizer)
    assert "".join(detokenizer.push(token) for token in ids) + detokenizer.flush() == "ok "


def test_bytes_that_never_become_a_character_do_not_hold_the_text_up() -> None:
    tokenizer = tiny.tokenizer()
    bad = tokenizer.encode("é", add_special_tokens=False)[0]
    detokenizer = Detokenizer(tokenizer)
    text = "".join(detokenizer.push(bad) for _ in range(100))
    assert text.count("\ufffd") >= 80
    assert detokenizer.push(tokenizer.encode("x", add_special_tokens=False)[0]).endswith("x")


def test_a_continued_text_keeps_its_space() -> None:
    tokenizer = sentencepiece()
    before = tokenizer.encode("hello", add_special_tokens=False)
    world = tokenizer.convert_tokens_to_ids("▁world")
    assert Detokenizer(tokenizer).push(world) == "world"
    assert Detokenizer(tokenizer, before=before).push(world) == " world"


def test_special_tokens_are_silent_unless_kept() -> None:
    tokenizer = tiny.tokenizer()
    hello = tokenizer.encode("hi", add_special_tokens=False)
    shown = Detokenizer(tokenizer, keep={"<|im_start|>"})
    text = "".join(shown.push(token) for token in [*hello, tiny.END, 3, *hello]) + shown.flush()
    assert text == "hi<|im_start|>hi"


# --- thinking ------------------------------------------------------------------------------------------------
REPLIES = {
    "<think>\nso it is\n</think>\n\nParis.": ("so it is\n", "Paris."),
    "\n<think>a < b </thin k></think>c<think>d</think>": ("a < b </thin k>", "c<think>d</think>"),
    "<think>\n\n</think>\n\nno thought": ("", "no thought"),
    "<think>never closed": ("never closed", ""),
    "Write <think> in tags.": ("", "Write <think> in tags."),
    "<thinking about it": ("", "<thinking about it"),
    "<th": ("", "<th"),
    " plain, with its space": ("", " plain, with its space"),
    "": ("", ""),
    "[THINK]hm[/THINK]yes": ("hm", "yes"),
    "<|channel|>analysis<|message|>We need<|end|><|start|>assistant<|channel|>final<|message|>Yes.": (
        "We need",
        "Yes.",
    ),
    "<|channel|>final<|message|>Only this.": ("", "Only this."),
    "<|channel>thought\nhm<channel|>yes": ("hm", "yes"),
}


def split(pieces: list[str], splitter: Splitter) -> tuple[str, str]:
    parts = [part for piece in pieces for part in splitter.push(piece)] + splitter.flush()
    assert all(text for _, text in parts)
    return (
        "".join(text for kind, text in parts if kind == "thinking"),
        "".join(text for kind, text in parts if kind == "answer"),
    )


@pytest.mark.parametrize("reply", REPLIES)
def test_thinking_is_told_apart_however_it_is_cut(reply: str) -> None:
    assert split([reply], Splitter()) == REPLIES[reply]
    assert split(list(reply), Splitter()) == REPLIES[reply]
    source = random.Random(1)
    for _ in range(30):
        cuts = sorted(source.sample(range(len(reply) + 1), min(4, len(reply))))
        pieces = [reply[a:b] for a, b in zip([0, *cuts], [*cuts, len(reply)], strict=True)]
        assert split(pieces, Splitter()) == REPLIES[reply]


def test_a_prompt_may_have_opened_the_thinking() -> None:
    style = opened("<|im_start|>assistant\n<think>\n")
    assert style is STYLES[0]
    assert split(list("it is so</think>\n\nParis"), Splitter(style)) == ("it is so", "Paris")
    assert split(["it is"], Splitter(style)) == ("it is", "")
    assert opened("<think>\n\n</think>\n\n") is None
    assert opened("assistant\n") is None


def test_text_is_not_held_back_longer_than_needed() -> None:
    splitter = Splitter()
    assert splitter.push("Pa") == [("answer", "Pa")]
    assert splitter.push("ris <") == [("answer", "ris <")]
    thinking = Splitter(STYLES[0])
    assert thinking.push("so </") == [("thinking", "so ")]
    assert thinking.push("b>") == [("thinking", "</b>")]
