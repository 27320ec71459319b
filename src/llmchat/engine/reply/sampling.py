"""Drawing the next token from the logits, with transformers' own processors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from transformers import GenerationConfig
from transformers.generation.logits_process import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from llmchat.domain.chat import Sampling
from llmchat.errors import ModelError, UsageError

SEEDS = 2**64
"""torch's generators take seeds below this."""


class Drawing(NamedTuple):
    """``Sampling`` with every value known."""

    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float


UNSAID = Drawing(temperature=0.7, top_p=0.95, top_k=0, repetition_penalty=1.0)
"""For models whose authors say nothing: some variety, and few slips."""


def drawing(sampling: Sampling, config: GenerationConfig | None) -> Drawing:
    """What the person set; for the rest what the model's ``generation_config`` says, else UNSAID.

    As in transformers ``do_sample = false`` is greedy. Left out, it says nothing.
    """
    own = {name: getattr(config, name, None) for name in Drawing._fields}
    if config is not None and config.do_sample is False:
        own["temperature"] = 0.0
    given = {name: getattr(sampling, name) for name in Drawing._fields}
    chosen = {name: given[name] if given[name] is not None else own[name] for name in Drawing._fields}
    return UNSAID._replace(**{name: value for name, value in chosen.items() if value is not None})


def check(sampling: Sampling) -> None:
    """Raises UsageError for a value that means nothing."""
    how = drawing(sampling, None)
    wrong = (
        (not how.temperature >= 0, "temperature", how.temperature, "0 (greedy) or more"),
        (not 0 < how.top_p <= 1, "top_p", how.top_p, "more than 0 and at most 1"),
        (how.top_k < 0, "top_k", how.top_k, "0 (off) or more"),
        (not how.repetition_penalty > 0, "repetition_penalty", how.repetition_penalty, "more than 0"),
        (
            sampling.max_tokens is not None and sampling.max_tokens < 1,
            "max_tokens",
            sampling.max_tokens,
            "1 or more",
        ),
        (
            sampling.seed is not None and not 0 <= sampling.seed < SEEDS,
            "seed",
            sampling.seed,
            "0 or more and below 2^64",
        ),
    )
    for is_wrong, name, value, allowed in wrong:
        if is_wrong:
            raise UsageError(
                "Sampling value out of range",
                f"{name} is {value}; it must be {allowed}.",
                "Change it in the settings (F2) or on the command line.",
            )


class Sampler:
    """One reply's sampler. Processors are applied in the order in which ``generate`` applies them."""

    def __init__(self, sampling: Sampling, prompt: Sequence[int], config: GenerationConfig | None = None) -> None:
        """``prompt``: the repetition penalty counts it too, as in transformers. ``config`` is the model's."""
        self._how = drawing(sampling, config)
        self._seed = sampling.seed
        self._prompt = list(prompt)
        self._seen: torch.Tensor | None = None
        self._random: torch.Generator | None = None
        self._processors = self._build()

    def _build(self) -> LogitsProcessorList:
        wanted, steps = self._how, LogitsProcessorList()
        if wanted.repetition_penalty != 1:
            steps.append(RepetitionPenaltyLogitsProcessor(float(wanted.repetition_penalty)))
        if wanted.temperature > 0:
            if wanted.temperature != 1:
                steps.append(TemperatureLogitsWarper(float(wanted.temperature)))
            if wanted.top_k:
                steps.append(TopKLogitsWarper(wanted.top_k))
            if wanted.top_p < 1:
                steps.append(TopPLogitsWarper(wanted.top_p))
        return steps

    def pick(self, logits: torch.Tensor) -> int:
        """The next token for logits of shape (vocabulary,) in float32, on whatever device they are.

        Raises ModelError where they are not numbers: no choice among them would mean anything.
        """
        best = int(logits.argmax())
        if not torch.isfinite(logits[best]):
            raise not_numbers()
        scores = self._processors(self._context(logits.device), logits[None])
        if self._how.temperature > 0:
            chances = torch.softmax(scores, dim=-1)
            token = int(torch.multinomial(chances, 1, generator=self._source(logits.device)))
        else:
            token = int(scores.argmax()) if self._processors else best
        self._remember(token)
        return token

    def _context(self, device: torch.device) -> torch.Tensor:
        """Tokens so far, shape (1, n), for the repetition penalty; empty where there is none."""
        if self._seen is None:
            tokens = self._prompt if self._how.repetition_penalty != 1 else []
            self._seen = torch.tensor([tokens], dtype=torch.long, device=device)
        return self._seen

    def _remember(self, token: int) -> None:
        if self._seen is not None and self._how.repetition_penalty != 1:
            self._seen = torch.cat([self._seen, self._seen.new_tensor([[token]])], dim=1)

    def _source(self, device: torch.device) -> torch.Generator:
        """The random source on the logits' device: the same seed gives the same tokens there."""
        if self._random is None:
            self._random = torch.Generator(device)
            if self._seed is None:
                self._random.seed()
            else:
                self._random.manual_seed(self._seed)
        return self._random


def not_numbers() -> ModelError:
    """For logits that are NaN or infinite."""
    return ModelError(
        "The model's numbers overflowed",
        "The model gave scores that are not numbers (NaN or infinite), so no token can be chosen.",
        "Try another precision (F4): some models overflow in float16. If it stays, the weights may be damaged: "
        "download them again.",
    )
