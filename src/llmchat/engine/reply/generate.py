"""Answering: prompt, prefill in pieces, one token after the other, until something ends it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable

import torch

from llmchat.domain.chat import ReplyStats, Sampling, StopReason
from llmchat.engine.loaded import LoadedModel
from llmchat.engine.problems import readable
from llmchat.engine.reply import thinking
from llmchat.engine.reply.context import Context
from llmchat.engine.reply.detokenize import Detokenizer
from llmchat.engine.reply.prompt import Prompt, PromptBuilder
from llmchat.engine.reply.sampling import Sampler, check
from llmchat.engine.reply.streaming import ReplyStream
from llmchat.engine.task import Task
from llmchat.errors import Cancelled, LlmchatError
from llmchat.protocol import AnyEvent, Generate, Started

CHUNK, CPU_CHUNK = 512, 256
"""Tokens read at once on a GPU and, at most, on the CPU: larger gains nothing, smaller is sooner stopped."""
CPU_LEAST = 32
CPU_WORK = 1e12
"""Floating-point operations between two looks at Stop on the CPU: a few seconds there."""
PROOF = "Hello"
WARM_STEPS = 3
"""Tokens decoded after the proof, so that the first reply does not wait for kernels to be loaded and tuned."""
WARM_FROM = 2.0
"""Tokens/s, predicted, from which a plan is warmed up: slower ones would keep the person waiting for it."""


class Generator:
    """Answers with one loaded model. The KV cache stays from one reply to the next."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self._limit = loaded.plan.context
        self._prompts = PromptBuilder(loaded.tokenizer, loaded.plan.context)
        self._context = Context(loaded.model, loaded.input_device, loaded.plan.kv, loaded.plan.context)
        self._chunk = chunk(loaded)
        self._ends = loaded.eos_ids - thinking.inner(loaded.tokenizer)
        self.last_stats: ReplyStats | None = None
        """Of the last reply, failed ones included."""

    def kv_bytes(self) -> dict[str, int]:
        """Bytes of the KV cache by device. May be asked by another thread: then RuntimeError is possible."""
        return self._context.bytes()

    def run(self, command: Generate, task: Task, send: Callable[[AnyEvent], None]) -> ReplyStats:
        """Send Started, Progress and Deltas; returns what the reply took.

        Raises PromptError, UsageError and ModelError before anything is generated, and Cancelled when stopped in
        prefill; stopped later, the reply just ends. Whatever goes wrong after Started is raised as an
        LlmchatError that carries ``stats``; by then all text that came is sent, and the KV cache is given up.
        """
        clock = time.monotonic()
        self.last_stats = None
        check(command.sampling)
        prompt = self._prompts.build(command.messages, command.sampling.max_tokens, command.continue_last)
        task.check()
        stream = self._stream(command, prompt, send)
        reused = self._context.rewind(prompt.ids)
        send(
            Started(
                id=command.id,
                prompt_tokens=len(prompt.ids),
                reused_tokens=reused,
                seen_from=prompt.seen_from,
                notes=prompt.notes,
            )
        )

        def stats(reason: StopReason) -> ReplyStats:
            stream.finish()
            self.last_stats = ReplyStats(
                prompt_tokens=len(prompt.ids),
                reused_tokens=reused,
                tokens=stream.tokens,
                time_to_first_token=(stream.first or time.monotonic()) - clock,
                seconds=stream.last - stream.first if stream.first else 0.0,
                reason=reason,
            )
            return self.last_stats

        try:
            logits = self._prefill(prompt.ids, task)
            return stats(self._decode(logits, prompt.ids, command.sampling, task, stream))
        except Cancelled:
            raise
        except Exception as error:
            failure = self._give_up(error)
            failure.stats = stats("failed")
        raise failure

    def _stream(self, command: Generate, prompt: Prompt, send: Callable[[AnyEvent], None]) -> ReplyStream:
        tokenizer = self._loaded.tokenizer
        before = prompt.ids if prompt.continues else ()
        style = None if prompt.continues else thinking.opened(prompt.tail)
        splitter = thinking.Splitter(style)
        return ReplyStream(command.id, send, Detokenizer(tokenizer, before=before, keep=thinking.MARKS), splitter)

    def _prefill(self, prompt: list[int], task: Task) -> torch.Tensor:
        """Read the part of the prompt that is new. Raises Cancelled between two chunks; what is read is kept."""
        start, total = len(self._context), len(prompt)
        size = self._chunk if self._context.extends else total
        for begin in range(start, total, size):
            task.check()
            task.progress("Reading the prompt", begin, total, "tokens")
            logits = self._context.feed(prompt[begin : begin + size])
        task.progress("Reading the prompt", total, total, "tokens")
        return logits

    def _decode(
        self,
        logits: torch.Tensor,
        prompt: list[int],
        how: Sampling,
        task: Task,
        stream: ReplyStream,
    ) -> StopReason:
        """One token after the other; returns why it ended."""
        sampler = Sampler(how, prompt, self._loaded.model.generation_config)
        room = self._limit - len(prompt)
        limit = min(room, how.max_tokens or room)
        while not task.cancelled:
            token = sampler.pick(logits)
            ends = token in self._ends
            stream.push(token, ends=ends)
            if ends:
                return "end"
            if stream.tokens >= limit:
                return "length" if limit == how.max_tokens else "context"
            logits = self._context.feed([token])
        return "stopped"

    def _give_up(self, error: Exception) -> LlmchatError:
        """Free what the failed reply held; returns the error to raise instead, with the numbers of that moment."""
        failure = readable(error)
        traceback.clear_frames(error.__traceback__)  # they hold the activations of the layer that failed
        error.__traceback__ = None
        self._context.clear()
        return failure


def chunk(loaded: LoadedModel) -> int:
    """Tokens to read at once: on the CPU the fewer the larger the model (2 operations a parameter and token)."""
    if loaded.input_device.type != "cpu":
        return CHUNK
    tokens = int(CPU_WORK / (2 * max(1, loaded.facts.parameters)))
    return max(CPU_LEAST, min(CPU_CHUNK, tokens // CPU_LEAST * CPU_LEAST))


def prove(loaded: LoadedModel, task: Task) -> None:
    """Read a few tokens and draw the next; where that is quick, some more. Raises ModelError where the logits are
    no numbers, Cancelled, and whatever the model raises."""
    ids = loaded.tokenizer(PROOF)["input_ids"] or [0]
    context = Context(loaded.model, loaded.input_device, loaded.plan.kv, loaded.plan.context)
    task.check()
    try:
        sampler = Sampler(Sampling(seed=0), ids)
        token = sampler.pick(context.feed(ids))
        if loaded.plan.tokens_per_second >= WARM_FROM and context.extends:
            for _ in range(WARM_STEPS):
                task.check()
                token = sampler.pick(context.feed([token]))
    finally:
        context.clear()
