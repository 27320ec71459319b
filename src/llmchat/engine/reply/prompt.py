"""A conversation as the tokens that a model reads, cut to what fits its context."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError

from llmchat.domain.chat import Message
from llmchat.engine.reply import conversation
from llmchat.errors import ModelError, PromptError

COMPLETION = "completion mode: this model has no chat template"
FOLDED = "system prompt folded into the first message"
MERGED = "messages of the same side merged: the chat template wants them to alternate"
RESERVE = 1024
"""Tokens kept free for the answer where that costs only old messages; a quarter of a small context."""
LEAST = 16
"""Tokens that must be free for the answer in any case."""
TAIL = 16
"""Tokens at the prompt's end in which an opened thinking mark is looked for."""
PROBE = "e7c1b0d4"
"""A system prompt to see whether it arrives in the rendered text."""


@dataclass(frozen=True)
class Prompt:
    ids: list[int]
    seen_from: int = 0
    """Index of the first message that is in it, the system prompt aside."""
    notes: tuple[str, ...] = ()
    continues: bool = False
    """The reply goes on in the middle of a text instead of beginning one."""
    tail: str = ""
    """The text of its last tokens, control tokens included."""


class PromptBuilder:
    def __init__(self, tokenizer: Any, context: int) -> None:
        """``context``: tokens of prompt and answer together."""
        self._tokenizer, self._context = tokenizer, context
        self._has_template = _has_template(tokenizer)
        self._takes_system: bool | None = None
        self._inert = "sanitize_control_tokens" in inspect.signature(tokenizer.apply_chat_template).parameters
        self._controls = [token for token in tokenizer.get_added_vocab() if not token.isspace()]

    def build(self, messages: Sequence[Message], max_tokens: int | None = None, continues: bool = False) -> Prompt:
        """With the system prompt and as many of the newest messages as fit. Raises PromptError, ModelError."""
        continues = continues and bool(messages[-1:]) and messages[-1].role == "assistant"
        if continues and not messages[-1].content:
            messages, continues = messages[:-1], False
        if not any(message.content for message in messages if message.role != "system"):
            raise PromptError("Nothing to answer", "There is no message to answer.", "Write one first.")
        render = self._chat if self._has_template else self._completion
        return self._fit(messages, max_tokens, lambda part: render(part, continues))

    def _fit(
        self, messages: Sequence[Message], max_tokens: int | None, render: Callable[[Sequence[Message]], Prompt]
    ) -> Prompt:
        """Drop the oldest exchanges, whole ones, until the prompt leaves room for an answer."""
        system, turns = conversation.split(messages)
        reserve = min(max_tokens or RESERVE, RESERVE, max(1, self._context // 4))
        starts = conversation.starts(turns)

        def at(index: int) -> Prompt:
            found = render([*system, *turns[starts[index] :]])
            return Prompt(found.ids, starts[index], found.notes, found.continues, found.tail)

        best = at(0)
        if len(best.ids) + reserve <= self._context:
            return best
        low, high = 0, len(starts) - 1
        best = at(high) if high else best
        if len(best.ids) + min(reserve, LEAST) > self._context:
            raise self._too_long(len(best.ids), bool(system), min(reserve, LEAST))
        while high - low > 1:
            middle = (low + high) // 2
            candidate = at(middle)
            if len(candidate.ids) + reserve <= self._context:
                best, high = candidate, middle
            else:
                low = middle
        return best

    def _too_long(self, tokens: int, system: bool, room: int) -> PromptError:
        what = "The message with the system prompt" if system else "The message"
        return PromptError(
            "Message too long",
            f"{what} takes {tokens:,} tokens; the context holds {self._context:,}, {room} of them for the answer.",
            "Shorten it, or load the model with a longer context (F4, or --context).",
        )

    # --- with a chat template --------------------------------------------------------------------------------
    def _chat(self, messages: Sequence[Message], continues: bool) -> Prompt:
        notes = []
        if messages[0].role == "system" and not self._accepts_system():
            messages = conversation.fold_system(messages)
            notes.append(FOLDED)
        try:
            ids = self._apply(messages, continues)
        except TemplateError as error:
            merged = conversation.merge(messages)
            if len(merged) == len(messages):
                raise self._refused(error) from error
            try:
                ids = self._apply(merged, continues)
            except TemplateError as again:
                raise self._refused(again) from again
            notes.append(MERGED)
        tail = str(self._tokenizer.decode(ids[-TAIL:], skip_special_tokens=False))
        return Prompt(ids, notes=tuple(notes), continues=continues, tail=tail)

    def _accepts_system(self) -> bool:
        """Whether the template takes a system prompt: some refuse it, some leave it out without a word."""
        if self._takes_system is None:
            chat = [{"role": "system", "content": PROBE}, {"role": "user", "content": "Hello"}]
            try:
                text = self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
            except Exception:
                text = ""
            self._takes_system = PROBE in text
        return self._takes_system

    def _apply(self, messages: Sequence[Message], continues: bool) -> list[int]:
        """Token ids by the template, which writes its own BOS. Control tokens in what people wrote stay text.

        Raises TemplateError where the template refuses, ModelError where it does not work.
        """
        options: dict[str, Any] = {"add_generation_prompt": not continues, "continue_final_message": continues}
        try:
            if any(control in message.content for message in messages for control in self._controls):
                return self._apply_inert(messages, options)
            return self._ids(messages, options)
        except TemplateError:
            raise
        except Exception as error:
            raise ModelError(
                "Chat template does not work",
                f"The model's chat template failed on this conversation: {error}",
                "Choose another model, or a newer revision of this one.",
            ) from error

    def _apply_inert(self, messages: Sequence[Message], options: dict[str, Any]) -> list[int]:
        if self._inert:
            try:
                return self._ids(messages, options | {"sanitize_control_tokens": True})
            except (ValueError, NotImplementedError):
                pass  # this tokenizer makes the control token from plain text too
        return self._ids(conversation.defuse(messages, self._controls), options)

    def _ids(self, messages: Sequence[Message], options: dict[str, Any]) -> list[int]:
        chat = [{"role": message.role, "content": message.content} for message in messages]
        return list(
            self._tokenizer.apply_chat_template(chat, tokenize=True, return_dict=True, **options)["input_ids"]
        )

    def _refused(self, error: TemplateError) -> PromptError:
        return PromptError(
            "Conversation refused by the chat template",
            f"The model's chat template says: {error}",
            "Edit the conversation, or start a new chat (Ctrl+N).",
        )

    # --- without one -----------------------------------------------------------------------------------------
    def _completion(self, messages: Sequence[Message], continues: bool) -> Prompt:
        """The conversation as one text that the model goes on writing; ``continues`` makes no difference."""
        text = conversation.plain(messages)
        ids = list(self._tokenizer(text, add_special_tokens=True, split_special_tokens=True)["input_ids"])
        if len(ids) > 1 and ids[-1] == self._tokenizer.eos_token_id:
            del ids[-1]  # added by some tokenizers; after it a model begins something new
        return Prompt(ids, notes=(COMPLETION,), continues=True)


def _has_template(tokenizer: Any) -> bool:
    try:
        return bool(tokenizer.get_chat_template())
    except ValueError:
        return False
