"""What was predicted, and beside it what was measured, in words."""

from __future__ import annotations

from llmchat.domain.plan import Plan
from llmchat.domain.speed.predict import PROMPT
from llmchat.domain.words import NOTICEABLE
from llmchat.session.state import SessionState


def full_speed(plan: Plan) -> float | None:
    """Tokens/s with the context full, where that is noticeably less than with a short prompt."""
    full = plan.full_tokens_per_second
    return full if full and full < NOTICEABLE * plan.tokens_per_second else None


def first_token(state: SessionState) -> str:
    """``first token 0.41 s for 300 tokens, predicted 0.28 s for 512``; empty before one was measured."""
    if state.plan is None or state.measured_first is None:
        return ""
    predicted = f"predicted {seconds(state.plan.time_to_first_token)} for {PROMPT}"
    return f"first token {seconds(state.measured_first)} for {state.measured_first_tokens:,} tokens, {predicted}"


def seconds(value: float) -> str:
    """``0.41 s``, ``12.3 s``, ``140 s``; two significant digits below 0.1."""
    if value < 0.1:
        return f"{value:.2g} s"
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f} s"
