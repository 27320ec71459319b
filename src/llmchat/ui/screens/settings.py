"""Settings: what they are now, and changing them for good."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import msgspec
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.validation import Number, Validator
from textual.widget import Widget
from textual.widgets import Input, Label, Select, Static

from llmchat.domain.chat import Sampling
from llmchat.session.controller import Session
from llmchat.session.saved.settings import Settings
from llmchat.ui.screens.base import Dialog
from llmchat.ui.widgets.field import Field

CHOICES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("panel", "Memory view", ("full", "compact", "hidden")),
    ("prefer", "Prefer", ("balanced", "quality", "speed")),
    ("ascii", "Plain characters", ("off", "on")),
    ("reduced_motion", "Reduced motion", ("off", "on")),
)
"""Field, label, values; of a yes or no, the words for it."""
FIELDS: tuple[tuple[str, str, str, float, float | None], ...] = (
    ("temperature", "Temperature", "number", 0, 5),
    ("top_p", "Top p", "number", 0, 1),
    ("top_k", "Top k", "integer", 0, None),
    ("repetition_penalty", "Repetition penalty", "number", 0.1, 10),
    ("max_tokens", "Longest reply", "integer", 1, None),
    ("seed", "Seed", "integer", 0, None),
)
"""Of Sampling: field, label, type, least, most."""
AUTHORS = "as the model's authors set it"
EMPTY = {
    "temperature": AUTHORS,
    "top_p": AUTHORS,
    "top_k": AUTHORS,
    "repetition_penalty": AUTHORS,
    "max_tokens": "what the context leaves",
    "seed": "a new one each time",
}
"""Fields that may be left empty, and what that means."""


class SettingsScreen(Dialog[dict[str, Any]]):
    """Gives back the settings that were changed, by name."""

    CSS_PATH = "settings.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "save", "Save", id="settings.save")]
    HEADING = "Settings"
    HINTS = (("^S", "save"), ("Tab", "next"), ("Esc", "leave as it was"))

    def __init__(self, session: Session, settings: Settings, themes: Sequence[str]) -> None:
        super().__init__(session)
        self._settings, self._themes = settings, themes

    def body(self) -> Iterable[Widget]:
        now = self._settings
        theme = now.theme if now.theme in self._themes else self._themes[0]
        rows = [_row("Theme", _select("theme", self._themes, theme))]
        for name, label, values in CHOICES:
            value = getattr(now, name)
            rows.append(_row(label, _select(name, values, values[value] if isinstance(value, bool) else value)))
        rows.append(_row("Comfortable tok/s", _number("comfortable", "number", now.comfortable, Number(0.1, 1e6))))
        folders = Field(
            ", ".join(now.model_folders),
            id="model_folders",
            compact=True,
            placeholder="none besides the hub's cache",
        )
        rows.append(_row("Model folders", folders))
        rows.append(_row("System prompt", Field(now.system, id="system", compact=True, placeholder="none")))
        for name, label, kind, least, most in FIELDS:
            value = getattr(now.sampling, name)
            rows.append(_row(label, _number(name, kind, value, Number(least, most))))
        yield VerticalScroll(*rows, can_focus=False)
        yield Static(id="wrong")

    def on_mount(self) -> None:
        self.query_one("#theme").focus()

    @on(Input.Submitted)
    def action_save(self) -> None:
        broken = [field for field in self.query(Input) if not field.is_valid]
        if broken:
            label = next((label for name, label, *_ in FIELDS if name == broken[0].id), "Comfortable tok/s")
            self.query_one("#wrong", Static).update(Content.styled(f"{label}: not a value it can have.", "$error"))
            broken[0].focus()
            return
        self.dismiss(self._changes())

    def _changes(self) -> dict[str, Any]:
        chosen: dict[str, Any] = {str(select.id): select.value for select in self.query(Select)}
        for name in ("ascii", "reduced_motion"):
            chosen[name] = chosen[name] == "on"
        chosen["system"] = self.query_one("#system", Input).value
        chosen["comfortable"] = float(self.query_one("#comfortable", Input).value or Settings().comfortable)
        folders = self.query_one("#model_folders", Input).value.split(",")
        chosen["model_folders"] = tuple(folder.strip() for folder in folders if folder.strip())
        chosen["sampling"] = msgspec.structs.replace(self._settings.sampling, **self._sampling())
        return {name: value for name, value in chosen.items() if value != getattr(self._settings, name)}

    def _sampling(self) -> dict[str, float | int | None]:
        texts = {name: self.query_one(f"#{name}", Input).value.strip() for name, *_ in FIELDS}
        types = {name: int if kind == "integer" else float for name, _, kind, *_ in FIELDS}
        defaults = msgspec.structs.asdict(Sampling())
        return {name: types[name](text) if text else defaults[name] for name, text in texts.items()}


def _row(label: str, control: Widget) -> Horizontal:
    return Horizontal(Label(label), control, classes="row")


def _select(name: str, values: Sequence[str], value: str) -> Select[str]:
    return Select([(v, v) for v in values], value=value, allow_blank=False, id=name, compact=True)


def _number(name: str, kind: Any, value: float | None, check: Validator) -> Input:
    return Field(
        "" if value is None else f"{value:g}" if kind == "number" else str(value),
        id=name,
        type=kind,
        compact=True,
        placeholder=EMPTY.get(name, "default"),
        validators=[check],
        valid_empty=True,
        validate_on=["changed"],
    )
