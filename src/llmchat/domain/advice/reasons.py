"""What a plan is and does, in sentences: the ``because`` of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from llmchat.domain.measured import Lesson
from llmchat.domain.memory import Account, gib
from llmchat.domain.plan import Kv
from llmchat.domain.speed.predict import Speed
from llmchat.domain.words import NOTICEABLE, amount, at, rate

KV_WORDS: dict[Kv, str] = {"device": "", "8bit": " in 8 bit", "ram": ", copied to its GPU layer by layer"}


def kv_cache(context: int, policy: Kv, accounts: Mapping[str, Account]) -> Iterator[str]:
    """Where it goes: ``the KV cache for 131,072 tokens takes 40.0 GiB: 20.0 GiB on GPU 0, 20.0 GiB on GPU 1``."""
    held = {device: account.kv_cache for device, account in accounts.items() if account.kv_cache}
    if not held:
        return
    head = f"the KV cache for {context:,} tokens takes {amount(sum(held.values()))}"
    if len(held) == 1:
        yield f"{head} {at(next(iter(held)))}{KV_WORDS[policy]}"
    else:
        parts = [f"{amount(size)} {at(device)}" for device, size in held.items()]
        yield f"{head}{KV_WORDS[policy]}: {', '.join(parts)}"


def slower_when_full(predicted: Speed, lesson: Lesson) -> Iterator[str]:
    full = predicted.full_tokens_per_second
    if full < NOTICEABLE * predicted.tokens_per_second:
        speed = rate(full * lesson.speed)
        yield f"with the context full {speed} tokens/s: for each token all of the KV cache is read"


def learned(lesson: Lesson) -> Iterator[str]:
    """What earlier runs of this way to hold the model changed."""
    if lesson.runs:
        yield f"{runs(lesson.runs)} of it here gave {lesson.speed:.0%} of the speed by arithmetic: that is counted"
    if lesson.gpu:
        yield f"{gib(lesson.gpu, 2)} more are kept free on each GPU: an earlier load took that beyond its plan"
    if lesson.ram:
        yield f"{gib(lesson.ram, 2)} more are kept free in RAM: an earlier load took that beyond its plan"


def runs(count: int) -> str:
    return "one earlier run" if count == 1 else f"{count} earlier runs"
