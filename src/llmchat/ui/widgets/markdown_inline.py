"""The inside of a paragraph: emphasis, code, links, maths as styled runs of text."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from rich.segment import Segment
from rich.style import Style

from llmchat.ui.widgets.markdown_parse import Node
from llmchat.ui.widgets.transcript_palette import Palette
from llmchat.ui.widgets.wrapping import Line

URL = "url"
"""Key of a link's address in the meta of its style."""
SCHEMES = frozenset({"http", "https", "mailto"})
"""Addresses of other schemes are shown but cannot be clicked."""

_STRONG, _EM, _STRIKE = Style(bold=True), Style(italic=True), Style(strike=True)


class Inline:
    """Runs of text for inline nodes. A run may hold line breaks."""

    def __init__(self, palette: Palette) -> None:
        self._palette = palette

    def runs(self, nodes: Iterable[Node], style: Style) -> Line:
        return [segment for node in nodes for segment in self._run(node, style)]

    def _run(self, node: Node, style: Style) -> Line:
        palette = self._palette
        match node.type:
            case "text":
                return [Segment(node.content, style)]
            case "softbreak" | "hardbreak":
                return [Segment("\n", style)]
            case "strong":
                return self.runs(node.children, style + _STRONG)
            case "em":
                return self.runs(node.children, style + _EM)
            case "s":
                return self.runs(node.children, style + _STRIKE)
            case "code_inline":
                return [Segment(node.content, style + palette.inline_code)]
            case "math_inline" | "math_inline_double":
                mark = "" if node.markup == "\\" else node.markup
                return [Segment(f"{mark}{node.content}{mark}", style + palette.math)]
            case "link":
                return self._link(node, str(node.attrs.get("href", "")), style)
            case "image":
                text = "".join(segment.text for segment in self.runs(node.children, style)) or "image"
                return [Segment(f"[{text}]", style + palette.muted), *self._address(str(node.attrs["src"]), style)]
            case "inline":
                return self.runs(node.children, style)
            case _:
                return [Segment(node.content, style)] if node.content else self.runs(node.children, style)

    def _link(self, node: Node, url: str, style: Style) -> Line:
        text = self.runs(node.children, style + self._palette.link + _click(url))
        plain = "".join(segment.text for segment in text)
        if url in (plain, f"mailto:{plain}", f"http://{plain}", f"https://{plain}"):
            return text
        return [*text, *self._address(url, style)]

    def _address(self, url: str, style: Style) -> Line:
        """The address in full: what a link says may differ from where it leads."""
        return [Segment(f" ({url})", style + self._palette.muted + _click(url))] if url else []


def _click(url: str) -> Style:
    try:
        scheme = urlsplit(url).scheme.lower()
    except ValueError:
        return Style.null()
    return Style.from_meta({URL: url}) if scheme in SCHEMES else Style.null()
