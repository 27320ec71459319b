"""Markdown as lines: what it looks like, that it fits, and that streaming gives the same as the whole."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from llmchat.ui.widgets.code_lines import GrowingCode, highlighted
from llmchat.ui.widgets.growing_text import GrowingMarkdown
from llmchat.ui.widgets.markdown_blocks import Blocks, markdown
from llmchat.ui.widgets.markdown_parse import Node, code_blocks, parse
from llmchat.ui.widgets.safe_text import safe_text
from llmchat.ui.widgets.transcript_palette import Palette
from llmchat.ui.widgets.wrapping import Line, cells, fit, wrap

from .talk import HOSTILE, RICH

PALETTE = Palette.read(lambda name: Style(color="red" if "link" in name else "white"))
PYTHON = 'def f():\n    """Many\n    lines."""\n    return 1\n\n\nclass A:\n    x = "y"\n\n' * 30
JAVASCRIPT = "/* a comment\n * of several lines\n */\nfunction f() {\n  return `x`;\n}\n" * 40


def lines(text: str, width: int = 60) -> list[str]:
    return ["".join(part.text for part in line).rstrip() for line in markdown(text, PALETTE, width)]


def streamed(text: str, width: int, sizes: list[int]) -> GrowingMarkdown:
    growing = GrowingMarkdown(PALETTE, width)
    end = 0
    for size in sizes:
        end += size
        assert growing.feed(text[:end])
    growing.feed(text)
    return growing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\ntwo", ["one", "two"]),
        ("# Title\ntext", ["Title", "", "text"]),
        ("a **b** *c* `d` ~~e~~", ["a b c d e"]),
        ("- a\n- b\n  - c", [" • a", " • b", "    – c"]),
        ("- a\n\n- b", [" • a", "", " • b"]),
        ("3. a\n4. b", [" 3. a", " 4. b"]),
        ("> q\n>\n> r", ["│ q", "│", "│ r"]),
        ("```py\nx = 1\n```", [" py", " x = 1"]),
        ("---", ["─" * 60]),
        ("[t](http://u.org)", ["t (http://u.org)"]),
        ("http://u.org", ["http://u.org"]),
        ("![alt](http://u.org/i.png)", ["[alt] (http://u.org/i.png)"]),
        ("[bold]x[/bold] <b>y</b>", ["[bold]x[/bold] <b>y</b>"]),
        (r"\(a_1 * b_2 * c_3\)", [r"\(a_1 * b_2 * c_3\)"]),
        ("$x_1$ costs $5 or $6", ["$x_1$ costs $5 or $6"]),
        ("$$\nx\n$$", ["$$ x $$"]),
        ("| a | b |\n|---|--:|\n| c | 1 |", ["a │ b", "──┼──", "c │ 1"]),
    ],
)
def test_looks(text: str, expected: list[str]) -> None:
    assert lines(text) == expected


@pytest.mark.parametrize("width", [10, 24, 40, 77, 120])
@pytest.mark.parametrize(
    "text", [RICH, safe_text(HOSTILE), "> " * 30 + "deep", "- " * 15 + "deep", "> " * 99 + "deep"]
)
def test_every_line_fits(text: str, width: int) -> None:
    drawn = markdown(text, PALETTE, width)
    assert max(cells(line) for line in drawn) <= width
    assert "deep" not in text or "deep" in "".join(segment.text for line in drawn for segment in line)


def test_no_text_is_lost_by_wrapping() -> None:
    text = "日本語 and English, 👩🏽‍💻 emoji " * 20
    wrapped = wrap([Segment(text)], 23)
    assert "".join(part.text for line in wrapped for part in line).replace(" ", "") == text.replace(" ", "")
    assert all(cells(line) <= 23 for line in wrapped)


def test_a_table_too_wide_is_written_as_records() -> None:
    header = "|".join(f"column {n}" for n in range(8))
    row = "|".join(f"a longer value {n}" for n in range(8))
    drawn = lines(f"{header}\n{'|'.join(['---'] * 8)}\n{row}", 30)
    assert drawn[0] == "column 0: a longer value 0"


def test_only_harmless_links_can_be_clicked() -> None:
    drawn = markdown("[a](https://a.org) [b](ftp://b.org)", PALETTE, 60)
    urls = {segment.style.meta.get("url") for line in drawn for segment in line if segment.style}
    assert urls == {None, "https://a.org"}


def test_fit() -> None:
    assert fit("abc", 3) == "abc"
    assert fit("日本語", 4) == "日…" and cell_len(fit("日本語", 4)) <= 4


def test_code_blocks_of_a_message() -> None:
    assert code_blocks("a\n```\none\n```\n- x\n  ```\n  two\n  ```\n") == ["one\n", "two\n"]


@pytest.mark.parametrize("text", [RICH, HOSTILE, "1. a\n2. b\n\n3. c\n\n   d\n4. e\n" * 3, "```\nopen\n  block\n"])
@pytest.mark.parametrize("seed", range(3))
def test_streamed_is_as_whole(text: str, seed: int) -> None:
    chance = random.Random(seed)
    growing = streamed(text, 50, [chance.randint(1, 12) for _ in range(len(text) // 6)])
    whole = [line.rstrip() for line in lines(safe_text(text), 50)]
    assert [strip.text.rstrip() for strip in growing.strips] == whole


@pytest.mark.parametrize(
    ("language", "code"), [("python", PYTHON), ("javascript", JAVASCRIPT), ("nonsense", PYTHON)]
)
def test_growing_code_is_highlighted_as_whole(language: str, code: str) -> None:
    growing = GrowingCode(language)
    settled = []
    for line in code.rstrip("\n").split("\n"):
        settled += growing.add([line], None)
    assert len(growing.open) < 120
    assert settled + growing.open == highlighted(code.rstrip("\n"), language)


def test_settled_parts_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 tokens of four characters: every block once when it is settled, and the open one at every token."""
    drawn = 0
    top = Blocks.top

    def counted(self: Blocks, nodes: Sequence[Node]) -> list[Line]:
        nonlocal drawn
        drawn += len(nodes)
        return top(self, nodes)

    monkeypatch.setattr(Blocks, "top", counted)
    text = (RICH * 20)[: 4 * 5_000]
    growing = GrowingMarkdown(PALETTE, 60)
    settled: list[Strip] = []
    for end in range(4, len(text), 4):
        growing.feed(text[:end])
        assert all(now is before for now, before in zip(growing.closed, settled, strict=False))
        settled = list(growing.closed)
    assert drawn <= len(parse(text)) + len(text) // 4


def test_a_streaming_list_settles_its_items() -> None:
    growing = streamed("1. one\n2. two\n3. thr", 60, [1] * 20)
    assert [strip.text for strip in growing.closed] == [" 1. one", " 2. two"]


def test_text_that_is_no_continuation_is_refused() -> None:
    growing = streamed("abc", 60, [])
    assert not growing.feed("abX")
