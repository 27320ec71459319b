"""The tables in the documents are what the planner says today."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

import make_tables


@pytest.mark.parametrize("path", make_tables.DOCUMENTS, ids=lambda path: path.name)
def test_the_tables_are_up_to_date(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    now = make_tables.renewed(text)
    old = [name for name in make_tables.BLOCK.findall(text) if block(text, name) != block(now, name)]
    assert text == now, f"{path.name} has old tables ({', '.join(old)}). Run: make docs-tables"


def block(text: str, name: str) -> str:
    return text.partition(f"<!-- table: {name} -->")[2].partition("<!-- end -->")[0]


def test_every_table_stands_in_a_document() -> None:
    texts = [path.read_text(encoding="utf-8") for path in make_tables.DOCUMENTS]
    assert {name for text in texts for name in make_tables.BLOCK.findall(text)} == make_tables.TABLES.keys()


def test_a_changed_figure_is_seen_and_mended() -> None:
    right = make_tables.renewed("before\n<!-- table: uneven -->\n<!-- end -->\nafter\n")
    assert right.startswith("before\n") and right.endswith("\nafter\n") and "tok/s" in right
    assert make_tables.renewed(right.replace("GPU 0", "GPU 7")) == right


@pytest.mark.parametrize(
    "text",
    [
        "<!-- table: none-such -->\n<!-- end -->",
        "<!-- table: uneven -->\nno end",
        "<!-- table: uneven -->\n<!-- table: coherent -->\n<!-- end -->",
        "<!-- end -->",
    ],
)
def test_markers_that_do_not_match_are_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        make_tables.renewed(text)
