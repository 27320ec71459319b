"""Drawing the next token from the logits, with transformers' own processors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
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


def check(sampling: Sampling) -> None:
    """Raises UsageError for a value that means nothing."""
    wrong = (
        (not sampling.temperature >= 0, "temperature", sampling.temperature, "0 (greedy) or more"),
        (not 0 < sampling.top_p <= 1, "top_p", sampling.top_p, "more than 0 and at most 1"),
        (sampling.top_k < 0, "top_k", sampling.top_k, "0 (off) or more"),
        (not sampling.repetition_penalty > 0, "repetition_penalty", sampling.repetition_penalty, "more than 0"),
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

    def __init__(self, sampling: Sampling, prompt: Sequence[int]) -> None:
        """``prompt``: the repetition penalty counts its tokens too, as in transformers."""
        self._sampling = sampling
        self._prompt = list(prompt)
        self._seen: torch.Tensor | None = None
        self._random: torch.Generator | None = None
        self._processors = self._build()

    def _build(self) -> LogitsProcessorList:
        wanted, steps = self._sampling, LogitsProcessorList()
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
        if self._sampling.temperature > 0:
            chances = torch.softmax(scores, dim=-1)
            token = int(torch.multinomial(chances, 1, generator=self._source(logits.device)))
        else:
            token = int(scores.argmax()) if self._processors else best
        self._remember(token)
        return token

    def _context(self, device: torch.device) -> torch.Tensor:
        """Tokens so far, shape (1, n), for the repetition penalty; empty where there is none."""
        if self._seen is None:
            tokens = self._prompt if self._sampling.repetition_penalty != 1 else []
            self._seen = torch.tensor([tokens], dtype=torch.long, device=device)
        return self._seen

    def _remember(self, token: int) -> None:
        if self._seen is not None and self._sampling.repetition_penalty != 1:
            self._seen = torch.cat([self._seen, self._seen.new_tensor([[token]])], dim=1)

    def _source(self, device: torch.device) -> torch.Generator:
        """The random source on the logits' device: the same seed gives the same tokens there."""
        if self._random is None:
            self._random = torch.Generator(device)
            if self._sampling.seed is None:
                self._random.seed()
            else:
                self._random.manual_seed(self._sampling.seed)
        return self._random


def not_numbers() -> ModelError:
    """For logits that are NaN or infinite."""
    return ModelError(
        "The model's numbers overflowed",
        "The model gave scores that are not numbers (NaN or infinite), so no token can be chosen.",
        "Try another precision (F4): some models overflow in float16. If it stays, the weights may be damaged: "
        "download them again.",
    )
