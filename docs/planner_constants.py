"""The planner's own constants that are guesses, with what their docstrings say of them."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DOMAIN = Path(__file__).parents[1] / "src/llmchat/domain"
ESTIMATE = re.compile(r"\b(estimate|assumed)\b", re.IGNORECASE)


class Constant(NamedTuple):
    name: str
    """``module.NAME``."""
    value: str
    """As the source has it, in one line."""
    said: str
    """Its docstring."""


def estimates() -> list[Constant]:
    """Those whose docstring calls them an estimate, or assumed."""
    return [constant for constant in _all() if ESTIMATE.search(constant.said)]


def _all() -> Iterator[Constant]:
    for path in sorted(DOMAIN.rglob("*.py"), key=lambda path: (path.stem, path)):
        yield from _of(path.stem, path.read_text(encoding="utf-8"))


def _of(module: str, source: str) -> Iterator[Constant]:
    for node, after in itertools.pairwise(ast.parse(source).body):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
        if isinstance(target, ast.Name) and isinstance(value, ast.expr) and isinstance(said, str):
            text = ast.get_source_segment(source, value) or ""
            yield Constant(f"{module}.{target.id}", _line(text), _line(said.replace("``", "`")))


def _line(text: str) -> str:
    return " ".join(text.split())
