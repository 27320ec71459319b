"""Themes: one TOML file is one Textual theme. Ours are in the package, a person's own in the config folder."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from textual.color import Color, ColorParseError
from textual.theme import Theme

from llmchat.errors import Problem

DEFAULT = "dark"

OWN_VARIABLES = {
    "muted": "#8a91ab",
    "mem-weights": "#7aa2f7",
    "mem-kv-cache": "#73c9b8",
    "mem-compute": "#e0af68",
    "mem-other": "#8a91ab",
    "mem-unaccounted": "#f7768e",
    "mem-free": "#4a5068",
}
"""Used where a theme does not set them."""


class ThemeFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The keys of a theme file. Colours as Textual takes them: ``#rrggbb``, ``rgb(...)``, names, ``ansi_...``."""

    name: str
    primary: str
    """Links, focus, the person's own messages."""
    secondary: str | None = None
    accent: str | None = None
    foreground: str | None = None
    background: str | None = None
    surface: str | None = None
    panel: str | None = None
    success: str | None = None
    warning: str | None = None
    error: str | None = None
    dark: bool = True
    text_alpha: float = 0.95
    variables: dict[str, str] = {}
    """``muted`` is quiet text, ``mem-weights`` ... ``mem-free`` colour the memory view; any variable of Textual's
    design system can be set too."""


_COLOURS = (
    "primary",
    "secondary",
    "accent",
    "foreground",
    "background",
    "surface",
    "panel",
    "success",
    "warning",
    "error",
)


@dataclass
class Loaded:
    themes: list[Theme] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def own_folder() -> Path:
    """Where the package's themes lie: beside the code in a wheel, at the top level in an editable install."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "themes"
    return inside if inside.is_dir() else package.parent.parent / "themes"


def user_folder() -> Path:
    """Where a person's own themes lie."""
    from llmchat.session.paths import config_dir

    return config_dir() / "themes"


def missing(name: str, names: list[str]) -> Problem:
    """The theme of the settings is not there."""
    return Problem(
        kind="UsageError",
        title="Theme not found",
        message=f"The settings ask for the theme {name!r}, and there is none of that name.",
        remedy=f"There are: {', '.join(names)}.",
    )


def load_all(*folders: Path) -> Loaded:
    """All themes of ``folders``; a later one of the same name wins. A broken file is a problem, not an end."""
    found: dict[str, Theme] = {}
    problems = []
    for folder in folders:
        for path in sorted(folder.glob("*.toml")) if folder.is_dir() else ():
            theme = read(path)
            if isinstance(theme, Problem):
                problems.append(theme)
            else:
                found[theme.name] = theme
    return Loaded(list(found.values()), problems)


def read(path: Path) -> Theme | Problem:
    """The theme of one file, or what is wrong with it, with the line where that is known."""
    try:
        text = path.read_text(encoding="utf-8")
        file = msgspec.convert(tomllib.loads(text), ThemeFile)
    except tomllib.TOMLDecodeError as error:
        return _problem(path, f"It is not valid TOML: {error}.")
    except msgspec.ValidationError as error:
        return _problem(path, f"{error}.")
    except (OSError, UnicodeDecodeError) as error:
        return _problem(path, f"It cannot be read: {error}.")
    for key, value in _colours(file):
        try:
            Color.parse(value)
        except ColorParseError:
            return _problem(path, f"Line {_line(text, key)}: {key} = {value!r} is not a colour.")
    known = {key: getattr(file, key) for key in _COLOURS}
    variables = {**OWN_VARIABLES, **file.variables}
    return Theme(name=file.name, dark=file.dark, text_alpha=file.text_alpha, variables=variables, **known)


def _colours(file: ThemeFile) -> list[tuple[str, str]]:
    named = [(key, getattr(file, key)) for key in _COLOURS]
    extra = [
        (key, value) for key, value in file.variables.items() if value.startswith("#") or key in OWN_VARIABLES
    ]
    return [(key, value) for key, value in named + extra if value is not None]


def _line(text: str, key: str) -> int:
    """Number of the line that sets ``key``; 1 where none is found."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.split("=")[0].strip().strip("\"'") == key:
            return number
    return 1


def _problem(path: Path, what: str) -> Problem:
    return Problem(
        kind="UsageError",
        title="Theme not loaded",
        message=f"{path}: {what}",
        remedy="Mend the file or remove it; llmchat goes on with another theme.",
    )
