"""Text of others cannot act on the terminal, hide, or reorder what stands around it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmchat.ui.widgets.safe_text import one_line, safe_text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never ended\nnext", "0;never ended\nnext"),
        ("\x9b31mC1\x90q\x9c", "C1"),
        ("nul\x00 bell\x07 back\x08 del\x7f", "nul bell back del"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("a\tb", "a    b"),
        ("over\u202edirrevo\u202c \u2066x\u2069\u200f", "overdirrevo x"),
        ("pass\u200bword\u2060\ufeff\u00ad", "password"),
        ("joi\u200dner", "joiner"),
        ("hid\U000e0041\U000e0042den", "hidden"),
        ("lone \ud83d", "lone \ufffd"),
        ("z" + "\u0301" * 50, "z" + "\u0301" * 3),
    ],
)
def test_dangerous_characters_go(given: str, expected: str) -> None:
    assert safe_text(given) == expected


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "👩🏽‍💻 👨‍👩‍👧 ❤️ 1️⃣ 🇩🇪 🏳️‍🌈",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "می\u200cخواهم क्\u200dष",
        "مرحبا שלום 日本語 한국어",
        "naïve e\u0301 Việt",
    ],
)
def test_writing_systems_and_emoji_stay(text: str) -> None:
    assert safe_text(text) == text


@given(
    st.text(
        alphabet=st.one_of(st.characters(), st.sampled_from("\x1b[]0;m\x07\x9b\x90\x9c\r\n\t\u200d\ufe0f\u202e"))
    )
)
def test_nothing_that_acts_is_left(text: str) -> None:
    safe = safe_text(text)
    assert safe_text(safe) == safe
    assert all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cs") for c in safe)
    assert not set(safe) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b")
    safe.encode("utf-8")


def test_one_line() -> None:
    assert one_line(" a\n\x1b[1mb\tc ") == "a b c"
