from __future__ import annotations

from pathlib import Path

import pytest
from textual.theme import Theme

from llmchat.errors import Problem
from llmchat.ui import themes

from . import states
from .apps import app, until


def test_our_themes_load_and_set_all_our_colours() -> None:
    found = themes.load_all(themes.own_folder())
    assert not found.problems
    assert {theme.name for theme in found.themes} == {"dark", "light", "high-contrast", "forest"}
    for path in themes.own_folder().glob("*.toml"):
        text = path.read_text()
        assert all(f"{name} =" in text for name in themes.OWN_VARIABLES), path


def test_a_theme_of_the_person_replaces_ours(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "dark"\nprimary = "#ff0000"\n')
    found = {theme.name: theme for theme in themes.load_all(themes.own_folder(), tmp_path).themes}
    assert found["dark"].primary == "#ff0000"
    assert found["dark"].variables["mem-weights"] == themes.OWN_VARIABLES["mem-weights"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name = "x"\nprimary = "#ff0000\n', "line 2"),
        ('name = "x"\n\nprimary = "#zz0000"\n', "Line 3: primary = '#zz0000' is not a colour"),
        ('name = "x"\nprimary = "red"\n[variables]\nmem-free = "greyish"\n', "Line 4: mem-free"),
        ('name = "x"\n', "primary"),
        ('name = "x"\nprimary = "red"\nprimry = "red"\n', "primry"),
        ('name = "x"\nprimary = 3\n', "$.primary"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(text)
    problem = themes.read(path)
    assert isinstance(problem, Problem)
    assert str(path) in problem.message
    assert words in problem.message


def test_bytes_that_are_no_text_are_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(b"\xff\xfe\x00")
    assert isinstance(themes.read(path), Problem)


async def test_the_app_goes_on_with_the_default_and_says_so() -> None:
    running, _, _ = app(states.ready(), theme="neon")
    async with running.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: len(running._notifications) == 1)
        assert running.theme == "dark"
        assert "'neon'" in next(iter(running._notifications)).message


def test_the_theme_of_a_file_is_textuals(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('name = "a"\nprimary = "red"\ndark = false\ntext-alpha = 1.0\n')
    theme = themes.read(tmp_path / "a.toml")
    assert isinstance(theme, Theme)
    assert not theme.dark
    assert theme.text_alpha == 1.0
