from __future__ import annotations

import pytest

from llmchat.ui.layout import Form, Mode, memory_form, next_mode, row_lines, too_small


@pytest.mark.parametrize(
    ("width", "height", "devices", "mode", "form"),
    [
        (160, 45, 5, "full", "panel"),
        (120, 30, 5, "full", "panel"),
        (119, 30, 5, "full", "rows"),
        (80, 24, 5, "full", "rows"),
        (80, 24, 1, "full", "rows"),
        (79, 24, 1, "full", "line"),
        (80, 15, 9, "full", "line"),
        (120, 15, 5, "full", "line"),
        (120, 30, 5, "compact", "rows"),
        (100, 30, 5, "compact", "line"),
        (160, 45, 5, "hidden", "none"),
        (60, 15, 5, "hidden", "none"),
    ],
)
def test_form_by_size_and_mode(width: int, height: int, devices: int, mode: Mode, form: Form) -> None:
    assert memory_form(width, height, devices, mode) == form


def test_nine_devices_stand_in_two_columns() -> None:
    assert row_lines(9) == 5
    assert memory_form(80, 24, 9, "full") == "rows"


def test_modes_go_round() -> None:
    assert [next_mode("full"), next_mode("compact"), next_mode("hidden")] == ["compact", "hidden", "full"]


def test_too_small_below_60_by_15() -> None:
    assert not too_small(60, 15)
    assert too_small(59, 15)
    assert too_small(60, 14)
