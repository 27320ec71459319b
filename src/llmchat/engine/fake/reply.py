"""The fake engine's replies: a script at the plan's pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal

from llmchat.domain.chat import Message, ReplyStats, StopReason
from llmchat.domain.memory import gib
from llmchat.domain.plan import Plan
from llmchat.engine.fake import machine as fake_machine
from llmchat.engine.fake import script as fake_script
from llmchat.engine.fake.machine import Holding
from llmchat.engine.fake.script import Script
from llmchat.engine.task import Task
from llmchat.errors import Cancelled, OutOfMemory, PromptError
from llmchat.protocol import AnyEvent, Delta, Generate, Started

FRAME = 1 / 30
"""Seconds between two Deltas, as in the real engine."""
BEFORE_TRICK = 12
"""Tokens of a reply before what goes wrong goes wrong."""
CHUNK = 512
"""Tokens of prompt read at once."""
PROMPT_TOKENS = 512
"""For which a plan tells its time to first token."""

Kind = Literal["answer", "thinking"]


class Replies:
    def __init__(
        self,
        plan: Plan,
        holding: Holding,
        send: Callable[[AnyEvent], None],
        wait: Callable[[Task, float], None],
        trick: Callable[[str], None],
    ) -> None:
        self._plan, self._holding = plan, holding
        self._send, self._wait, self._trick = send, wait, trick
        self._read: tuple[str, ...] = ()

    def run(self, command: Generate, task: Task) -> ReplyStats:
        """Raises PromptError, OutOfMemory, and Cancelled when stopped before the first token."""
        return _Reply(self, command, task).run()

    def fit(self, messages: Sequence[Message]) -> tuple[tuple[str, ...], int]:
        """The prompt in pieces, and how many old messages it leaves out. Raises PromptError."""
        head = tuple(messages[:1]) if messages and messages[0].role == "system" else ()
        turns = messages[len(head) :]
        for start in range(0, max(1, len(turns)), 2):
            shown = [*head, *turns[start:]]
            found = fake_script.pieces("\n".join(f"{m.role}: {m.content}" for m in shown))
            if len(found) < self._plan.context:
                return found, start
        raise PromptError(
            "Message too long",
            f"The message takes {len(found):,} tokens; the context holds {self._plan.context:,}.",
            "Shorten it, or load the model with a longer context (F4, or --context).",
        )

    def reuse(self, prompt: tuple[str, ...]) -> int:
        """Tokens at the start of the prompt that were read before."""
        common = 0
        for old, new in zip(self._read, prompt[:-1], strict=False):
            if old != new:
                break
            common += 1
        self._read = prompt
        return common


class _Reply:
    """One of them, while it runs."""

    def __init__(self, replies: Replies, command: Generate, task: Task) -> None:
        self._replies, self._command, self._task = replies, command, task
        self._plan, self._holding = replies._plan, replies._holding
        self._started = time.monotonic()
        self._first = self._last = 0.0
        self._tokens = 0
        self._prompt: tuple[str, ...] = ()
        self._reused = 0

    def run(self) -> ReplyStats:
        command = self._command
        self._prompt, seen_from = self._replies.fit(command.messages)
        self._reused = self._replies.reuse(self._prompt)
        self._replies._send(
            Started(
                id=command.id,
                prompt_tokens=len(self._prompt),
                reused_tokens=self._reused,
                seen_from=seen_from,
            )
        )
        speed = fake_machine.seconds("SPEED", self._plan.tokens_per_second) or 1.0
        script = fake_script.script(command.messages, command.continue_last)
        self._prefill(speed / self._plan.tokens_per_second)
        try:
            reason = self._speak(script, speed)
        except Cancelled:
            reason = "stopped"
        return self._stats(reason)

    def _prefill(self, hurry: float) -> None:
        new, total = len(self._prompt) - self._reused, len(self._prompt)
        each = self._plan.time_to_first_token / PROMPT_TOKENS / hurry
        while new > 0:
            self._task.progress("Reading the prompt", total - new, total, "tokens")
            self._replies._wait(self._task, each * min(CHUNK, new))
            new -= CHUNK
        self._task.progress("Reading the prompt", total, total, "tokens")

    def _speak(self, script: Script, speed: float) -> StopReason:
        """All tokens when they are due, in Deltas of what came within a frame."""
        tokens: list[tuple[Kind, str]] = [("thinking", text) for text in script.thinking]
        tokens += [("answer", text) for text in script.answer]
        room = self._plan.context - len(self._prompt)
        limit = min(room, self._command.sampling.max_tokens or room, len(tokens))
        begun = time.monotonic()
        while self._tokens < limit:
            if script.trick and self._tokens >= BEFORE_TRICK:
                self._go_wrong(script.trick)
                script = Script(script.answer)
            due = 1 + int((time.monotonic() - begun) * speed)
            stop = min(limit, max(due, self._tokens + 1), self._tokens + BEFORE_TRICK if script.trick else limit)
            self._say(tokens[self._tokens : stop])
            if self._tokens < limit:
                next_due = begun + self._tokens / speed
                self._replies._wait(self._task, max(FRAME, next_due - time.monotonic()))
        if limit == len(tokens):
            return "end"
        return "length" if limit == self._command.sampling.max_tokens else "context"

    def _say(self, tokens: Sequence[tuple[Kind, str]]) -> None:
        """One Delta for each kind; the KV cache grows."""
        self._last = time.monotonic()
        self._first = self._first or self._last
        for kind in ("thinking", "answer"):
            text = [part for of, part in tokens if of == kind]
            if text:
                self._tokens += len(text)
                self._replies._send(Delta(id=self._command.id, text="".join(text), tokens=self._tokens, kind=kind))
        self._holding.remember(len(self._prompt) + self._tokens)

    def _go_wrong(self, trick: str) -> None:
        if trick != "oom":
            self._replies._trick(trick)
            return
        self._replies._read = ()
        self._holding.remember(0)
        failure = OutOfMemory(
            "Out of memory",
            f"{gib(2**31)} more were asked for; {self._plan.main_device} has {gib(2**28)} free.",
            "Choose a smaller context, a lower precision, or a strategy that spreads the weights (F4).",
        )
        failure.stats = self._stats("failed")
        raise failure

    def _stats(self, reason: StopReason) -> ReplyStats:
        return ReplyStats(
            prompt_tokens=len(self._prompt),
            reused_tokens=self._reused,
            tokens=self._tokens,
            time_to_first_token=(self._first or time.monotonic()) - self._started,
            seconds=self._last - self._first,
            reason=reason,
        )
