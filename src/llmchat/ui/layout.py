"""Which form the memory view takes at a terminal's size. Pure."""

from __future__ import annotations

from typing import Literal

Mode = Literal["full", "compact", "hidden"]
MODES: tuple[Mode, ...] = ("full", "compact", "hidden")
Form = Literal["panel", "rows", "line", "none"]

PANEL_WIDTH = 40
PANEL_FROM = 120
"""Columns from which chat and panel stand side by side."""
ROWS_FROM = 80
SMALLEST = (60, 15)
"""Columns and rows below which nothing useful can be drawn."""


def memory_form(width: int, height: int, devices: int, mode: Mode) -> Form:
    """``devices`` are the GPUs and the RAM. ``compact`` is the next smaller form that the size allows."""
    if mode == "hidden":
        return "none"
    rows_fit = width >= ROWS_FROM and row_lines(devices) + 1 <= height // 3
    if mode == "full" and width >= PANEL_FROM and height >= 20:
        return "panel"
    if rows_fit and (mode == "full" or width >= PANEL_FROM):
        return "rows"
    return "line"


def row_lines(devices: int) -> int:
    """Lines that the rows take: more than five devices stand in two columns."""
    return devices if devices <= 5 else (devices + 1) // 2


def too_small(width: int, height: int) -> bool:
    return width < SMALLEST[0] or height < SMALLEST[1]


def next_mode(mode: Mode) -> Mode:
    return MODES[(MODES.index(mode) + 1) % len(MODES)]
