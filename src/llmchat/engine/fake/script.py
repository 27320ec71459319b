"""What the fake engine says: Markdown of every kind, chosen by what it is asked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from llmchat.domain.chat import Message

PIECE = re.compile(r"\s*\S{1,5}|\s+")
"""About a token."""
TRICK = re.compile(r"\s*!(oom|die|hang|garbage|long|think|code)\b\s*(\d+)?", re.IGNORECASE)

TABLE = """\
Here is how the strategies compare:

| strategy | weights are | good for |
|---|---|---|
| `single-gpu` | all on one GPU | a model that fits |
| `multi-gpu` | whole layers on several GPUs | a model larger than one card |
| `ram-offload` | partly in RAM | a little too large |
| `disk-offload` | partly on disk | much too large, and patience |

The first that fits is usually the **fastest**.
"""
CODE = '''\
A function that adds up the bytes of a model:

```python
def weight_bytes(model: torch.nn.Module) -> int:
    """Bytes of all parameters; a tied one counts once."""
    return sum({id(p): p.nbytes for p in model.parameters()}.values())
```

Call it as `weight_bytes(model) / 2**30` to get GiB.
'''
STEPS = """\
Three things decide how fast a model answers:

1. **Memory bandwidth.** Every token reads all the weights once.
2. **Where the weights are.**
   - on the GPU: fast
   - in RAM: they cross the link for every token
3. **Precision.** Half the bytes are read in half the time.

> A model that fits is faster than a better one that does not.
"""
PARIS = "The capital of France is **Paris**.\n"
THOUGHT = """\
The question is short, so the answer should be too. First I look at what was asked, then at what was said before. \
Nothing contradicts it, so I can answer.
"""
PARAGRAPH = """\
Weights are read once for every token, so the speed of the memory they lie in is the speed of the answer. \
What does not fit on the card has to come over the link, and the link is twenty times slower than the card's own \
memory. That is why a plan counts bytes before it counts anything else.

"""
RULES = (
    (("table", "compare", "strateg"), TABLE),
    (("code", "python", "function"), CODE),
    (("list", "step", "why", "how"), STEPS),
    (("france",), PARIS),
)
"""Words in the question to the reply; the first that matches."""


@dataclass(frozen=True)
class Script:
    answer: tuple[str, ...]
    """In pieces of about a token."""
    thinking: tuple[str, ...] = ()
    trick: str = ""
    """What goes wrong on the way: ``oom``, ``die``, ``hang``, ``garbage``."""


def pieces(text: str) -> tuple[str, ...]:
    return tuple(PIECE.findall(text))


def script(messages: Sequence[Message], continues: bool = False) -> Script:
    """The reply to this conversation: always the same for the same one."""
    asked = [message.content for message in messages if message.role == "user"]
    question = asked[-1] if asked else ""
    found = _script(question, asked)
    if continues and messages[-1].role == "assistant":
        text, part = "".join(found.answer), messages[-1].content
        rest = text.removeprefix(part) if text.startswith(part) else " And so it goes on.\n"
        return replace(found, answer=pieces(rest), thinking=())
    return found


def _script(question: str, asked: Sequence[str]) -> Script:
    match = TRICK.match(question)
    if match is None:
        return Script(pieces(_answer(question, asked)))
    trick, number = match[1].lower(), int(match[2] or 200)
    if trick == "long":
        endless = pieces(PARAGRAPH) * (number // len(pieces(PARAGRAPH)) + 1)
        return Script(endless[:number])
    if trick == "think":
        return Script(pieces(STEPS), pieces(THOUGHT))
    if trick == "code":
        return Script(pieces(CODE))
    return Script(pieces(PARAGRAPH), trick=trick)


def _answer(question: str, asked: Sequence[str]) -> str:
    words = question.lower()
    for keys, text in RULES:
        if any(key in words for key in keys):
            return text
    told = question.strip().splitlines()[0][:60] if question.strip() else "nothing"
    first = asked[0].strip().splitlines()[0][:60] if asked and asked[0].strip() else ""
    before = f" You first asked: *{first}*." if len(asked) > 1 else ""
    return f"You said: *{told}*.{before}\n\n{PARAGRAPH}"
