"""ASCII mode: every character that llmchat or Textual draws with has a stand-in of the same width."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_STAND_INS = {
    "█▉▊▋": "#",
    "▓▌▐▍": "=",
    "▒▎▏": "+",
    "░": ":",
    "╱": "/",
    "▁▂": "_",
    "▃▄": "-",
    "▅▆▇": "=",
    "▔▀": '"',
    "·•": ".",
    "●": "*",
    "★": ">",
    "▶▸": ">",
    "▼▾": "v",
    "×": "x",
    "…": "~",
    "°": " ",
    "–—─━╸╺═┄┈": "-",
    "│┃║▕": "|",
    "╭╮╰╯┌┐└┘├┤┬┴┼┏┓┗┛╔╗╚╝╞╡": "+",
    "↑": "^",
    "↓": "v",
    "←": "<",
    "→": ">",
    "“”": '"',
    "‘’": "'",
}
_TABLE = str.maketrans({character: to for characters, to in _STAND_INS.items() for character in characters})


class AsciiFilter(LineFilter):
    """Replaces drawing characters; letters of other scripts stay, for they are the person's or the model's."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else Segment(segment.text.translate(_TABLE), segment.style)
            for segment in segments
        ]
