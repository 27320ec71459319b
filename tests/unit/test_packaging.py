"""What the project says of itself agrees with the code."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from llmchat.commands.options import SUBCOMMANDS
from llmchat.domain.strategies import ALL

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def canonical(name: str) -> str:
    """A distribution's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    """Names of the dependencies and of those of all extras."""
    extras = (requirement for group in PROJECT["optional-dependencies"].values() for requirement in group)
    return {canonical(re.split(r"[^\w.-]", text, maxsplit=1)[0]) for text in (*PROJECT["dependencies"], *extras)}


def imported() -> set[str]:
    """Top-level modules that any file of ours imports, anywhere in it."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found


def test_every_import_is_a_declared_dependency() -> None:
    packages = metadata.packages_distributions() | {"rmm": ["rmm-cu12"]}
    third_party = imported() - set(sys.stdlib_module_names) - {"llmchat"}
    assert {"torch", "textual", "msgspec"} <= third_party
    missing = {
        name for name in third_party if not {canonical(dist) for dist in packages.get(name, [name])} & declared()
    }
    assert not missing


def test_the_pins_name_every_dependency() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {canonical(line.partition("==")[0]) for line in lines if "==" in line}
    assert "torch==2.13.0" in lines
    assert declared() - {"rmm-cu12", "rmm-cu13"} <= pinned


def test_the_extras_pins_have_rmm_and_its_torch() -> None:
    for cuda, torch in (("12", "torch==2.10."), ("13", "torch==2.13.0")):
        text = (ROOT / f"constraints-cuda{cuda}.txt").read_text(encoding="utf-8")
        assert f"rmm-cu{cuda}==26.10." in text and torch in text


def test_the_readme_has_every_strategy_theme_and_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for strategy in ALL:
        assert f"| `{strategy.name}` |" in readme
    for theme in (ROOT / "themes").glob("*.toml"):
        assert theme.stem in readme
    for command in SUBCOMMANDS:
        assert f"`llmchat {command} " in readme or f"`llmchat {command}`" in readme


def test_the_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text and "9. Accepting Warranty" in text


def test_the_pictures_of_the_readme_are_there() -> None:
    for document in ROOT.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (ROOT / target).exists(), f"{document.name}: {target}"
