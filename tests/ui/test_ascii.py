from __future__ import annotations

from rich.segment import Segment
from textual.color import Color

from llmchat.ui.ascii import AsciiFilter
from llmchat.ui.bars import FILL, KINDS

from . import states
from .apps import app


def drawn(text: str) -> str:
    return "".join(segment.text for segment in AsciiFilter().apply([Segment(text)], Color(0, 0, 0)))


def test_the_kinds_stay_apart() -> None:
    stand_ins = [drawn(FILL[kind]) for kind in KINDS]
    assert "".join(stand_ins).isascii()
    assert len(set(stand_ins)) == len(KINDS)


def test_what_people_and_models_write_stays() -> None:
    assert drawn("naïve 東京 ✓") == "naïve 東京 ✓"


async def test_a_whole_screen_in_ascii() -> None:
    for size in ((80, 24), (160, 45)):
        running, _, _ = app(states.ready(), ascii=True)
        async with running.run_test(size=size) as pilot:
            await pilot.press("f4")
            await pilot.pause()
            lines = [strip.text for strip in running.screen._compositor.render_strips()]
            shown = AsciiFilter().apply([Segment("\n".join(lines))], Color(0, 0, 0))
            assert any(type(f) is AsciiFilter for f in running.get_line_filters())
            assert "".join(segment.text for segment in shown).isascii()
