"""Conversations for the transcript's tests and benchmark, and an app that shows nothing else."""

from __future__ import annotations

from typing import Any

from textual.app import App, ComposeResult

from llmchat.domain.chat import ReplyStats, StopReason, Turn
from llmchat.session.state import Reply
from llmchat.ui import themes
from llmchat.ui.widgets.transcript import Transcript

RICH = """\
# Paris

The capital of France is **Paris**, *not* Lyon; see [the article](https://en.wikipedia.org/wiki/Paris) or
https://example.org. The model's `tokenizer.json` says ~~so~~ otherwise.

1. First, with a nested list:
   - a point that is long enough that it has to be wrapped onto a second line when the terminal is narrow
   - another **bold** point
2. Second
   > A quote in a list
   > of two lines

> To be, or not to be.

| GPU | memory | note |
|:----|-------:|:----:|
| H100 SXM | 80 GB | fast |
| A100 | 40 GB | the one on which the model does not fit unless the weights are quantized to 4 bit |

```python
def answer(question: str, temperature: float = 0.7) -> str:
    \"\"\"Say something.\"\"\"
    return model.generate(question, temperature=temperature)  # a comment past the edge of the screen
```

Maths stays readable: \\(E = mc^2\\), $a_1 * b_2 * c_3$, and

$$
\\int_0^1 x^2 dx = \\frac{1}{3}
$$

---

日本語の文章はスペースなしで折り返されます。とても長い文章なので、画面の端で改行されるはずです。

絵文字 👩🏽‍💻 も 🇩🇪 も大丈夫。
"""

HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b]0;title\x07bell\x07 [bold]markup[/bold] [@click=app.quit]x[/]\n\n"
    "over\u202eedirrevo\u202c zero\u200bwidth joi\u200dner z" + "\u0301" * 30 + "algo\r\n\r\n"
    "مرحبا بالعالم، هذا نص عربي. שלום עולם. क्‍ष می‌خواهم\n\n"
    "<script>alert(1)</script> <b>html</b> &lt;b&gt; \ud83d\n\n"
    "```\x1b[2J\n\x1b[Hcode\ttab \x00nul\n```\n\n"
    "[file](file:///etc/passwd) [js](javascript:alert(1)) ![image](http://x/y.png)\n\n" + "W" * 300
)


def stats(reason: StopReason = "end", tokens: int = 118) -> ReplyStats:
    return ReplyStats(prompt_tokens=40, tokens=tokens, time_to_first_token=0.32, seconds=8.24, reason=reason)


def user(number: int, text: str) -> Turn:
    return Turn(id=f"u{number}", role="user", content=text, created=0.0)


def assistant(number: int, text: str, thinking: str = "", reason: StopReason = "end") -> Turn:
    return Turn(
        id=f"a{number}",
        role="assistant",
        content=text,
        thinking=thinking,
        created=0.0,
        model="HuggingFaceTB/SmolLM2-135M-Instruct",
        label="ram-offload, bf16",
        stats=stats(reason),
    )


def reply(text: str, thinking: str = "", turn_id: str = "a9") -> Reply:
    return Reply(turn_id=turn_id, answer=text, thinking=thinking, started=0.0)


def long_chat(messages: int) -> tuple[Turn, ...]:
    """``messages`` turns of everyday Markdown, the person's and the model's in turn."""
    body = "A paragraph with **bold** and `code`, long enough to be wrapped once or twice at eighty columns.\n\n"
    code = "```python\nfor i in range(10):\n    print(i)\n```\n"
    return tuple(
        user(i, f"Question {i}: what about it?")
        if i % 2 == 0
        else assistant(i, f"## Answer {i}\n\n" + body * 2 + code)
        for i in range(messages)
    )


class TalkApp(App[None]):
    """A transcript and nothing else; ``messages`` are what it posted."""

    CSS = "Transcript { height: 1fr; }"

    def __init__(self, *turns: Turn, theme: str = "dark", **attributes: Any) -> None:
        super().__init__()
        self.messages: list[Any] = []
        self._first: dict[str, Any] = {"turns": turns, **attributes}
        for each in themes.load_all(themes.own_folder()).themes:
            self.register_theme(each)
        self.theme = theme

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.OWN_VARIABLES

    def compose(self) -> ComposeResult:
        transcript = Transcript()
        for name, value in self._first.items():
            setattr(transcript, name, value)
        yield transcript

    @property
    def transcript(self) -> Transcript:
        return self.query_one(Transcript)

    def on_transcript_copy_requested(self, message: Transcript.CopyRequested) -> None:
        self.messages.append(message)

    def on_transcript_edit_requested(self, message: Transcript.EditRequested) -> None:
        self.messages.append(message)

    def on_transcript_regenerate_requested(self, message: Transcript.RegenerateRequested) -> None:
        self.messages.append(message)

    def on_transcript_link_clicked(self, message: Transcript.LinkClicked) -> None:
        self.messages.append(message)

    def on_transcript_left(self, message: Transcript.Left) -> None:
        self.messages.append(message)
