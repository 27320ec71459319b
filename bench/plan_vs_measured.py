"""Is the plan's promise kept? Loads a checkpoint in several ways and sets planned beside measured.

    python bench/plan_vs_measured.py llama-8b /tmp/llama-8b --gpu-budget 6 --rounds 2

Each way is loaded ``--rounds`` times, the ways in turn, and answers greedily: replies of 64 tokens after a prompt
of about 512 for the speed (the median of all counts), then one after a prompt that fills the context, with which
the bytes are compared: what the driver and the engine say is held then. One Markdown table; above it what each
round gave, and why a way does not fit here.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import statistics
import tempfile
from pathlib import Path

import checkpoints

from llmchat.domain.chat import Sampling
from llmchat.domain.memory import CPU, GIB, Account, cuda
from llmchat.domain.plan import Plan, Precision, Request
from llmchat.session.controller import Session
from llmchat.session.options import SessionOptions

REPLIES = 3
TOKENS = 64
SLOW, SLOW_TOKENS = 3.0, 12
"""Below so many tokens/s, predicted, one reply of so many tokens has to do."""
CONTEXT = 2048
WORD, WORDS_OF_512 = "word ", 100
"""A byte-level token for each letter."""
SAMPLES = 1.5
"""Seconds in which the memory has surely been looked at again."""


@dataclasses.dataclass
class Outcome:
    plan: Plan
    speeds: list[float]
    firsts: list[float]
    loads: list[float]
    measured: dict[str, Account]
    """With the context full, by the driver and the system."""


def requests(budget: int) -> list[Request]:
    """Whole on the GPU in three precisions and with three places for the KV cache, managed, and offloaded under a
    budget of ``budget`` bytes."""
    small = {0: budget}
    gpu = "single-gpu"
    return [
        *(Request(context=CONTEXT, strategy=gpu, precision=precision) for precision in Precision),
        Request(context=CONTEXT, strategy="managed", precision=Precision.PUBLISHED),
        Request(context=CONTEXT, strategy="ram-offload", precision=Precision.PUBLISHED, gpu_budget=small),
        Request(
            context=CONTEXT,
            strategy="disk-offload",
            precision=Precision.PUBLISHED,
            gpu_budget=small,
            ram_budget=budget,
        ),
        Request(context=CONTEXT, strategy="cpu", precision=Precision.PUBLISHED),
        Request(context=CONTEXT, strategy=gpu, precision=Precision.PUBLISHED, kv="8bit"),
        Request(context=CONTEXT, strategy=gpu, precision=Precision.PUBLISHED, kv="ram"),
    ]


async def measure(folder: Path, request: Request, fresh: bool) -> Outcome:
    if fresh:
        os.environ["LLMCHAT_HOME"] = tempfile.mkdtemp(prefix="llmchat-bench-")
    session = Session(SessionOptions(request=request, sampling=Sampling(temperature=0)))
    await session.start()
    try:
        session.open(str(folder))
        await session.wait_ready()
        state = session.state
        plan = state.plan
        assert plan
        slow = plan.tokens_per_second < SLOW
        speeds, firsts = [], []
        for number in range(1 if slow else REPLIES):
            speed, first = await reply(session, f"{number} {WORD * WORDS_OF_512}", SLOW_TOKENS if slow else TOKENS)
            speeds.append(speed)
            firsts.append(first)
        await reply(session, f"full {WORD * int(WORDS_OF_512 * 3.6)}", 2 if slow else TOKENS)
        await asyncio.sleep(SAMPLES)
        memory = session.state.memory
        assert memory
        measured = {cuda(gpu.index): gpu.account for gpu in memory.gpus} | {CPU: memory.ram}
        return Outcome(plan, speeds, firsts, [state.load_seconds or 0.0], measured)
    finally:
        await session.close()


async def reply(session: Session, prompt: str, tokens: int) -> tuple[float, float]:
    """Tokens/s, and seconds to the first token."""
    session.set_sampling(Sampling(temperature=0, max_tokens=tokens))
    session.new_chat()
    session.send(prompt)
    await session.wait_reply()
    assert session.state.chat
    stats = session.state.chat.turns[-1].stats
    assert stats
    return stats.tokens_per_second or 0.0, stats.time_to_first_token


def rows(outcome: Outcome) -> list[str]:
    plan = outcome.plan
    speed = statistics.median(outcome.speeds)
    spread = f"{min(outcome.speeds):.2f} to {max(outcome.speeds):.2f}"
    first = statistics.median(outcome.firsts)
    found = []
    for device, planned in sorted(plan.devices.items(), reverse=True):
        got = outcome.measured.get(device, Account())
        ratio = f"{got.engine / planned.engine:.3f}" if planned.engine and device in outcome.measured else "-"
        found.append(
            f"| {plan.label} | {device} | {pair(planned.weights, got.weights)} "
            f"| {pair(planned.kv_cache, got.kv_cache)} | {pair(planned.compute, got.compute)} | {ratio} "
            f"| {plan.tokens_per_second:.2f} / {speed:.2f} ({spread}) = {speed / plan.tokens_per_second:.2f} "
            f"| {plan.time_to_first_token:.2f} / {first:.2f} | {statistics.median(outcome.loads):.1f} |"
        )
    return found


def pair(planned: int, measured: int) -> str:
    return f"{planned / GIB:.2f} / {measured / GIB:.2f}"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=checkpoints.SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu-budget", type=float, default=6.0, help="GiB, for the offloading strategies")
    parser.add_argument("--only", nargs="*", help="strategies to measure; all by default")
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="calibrate anew before each load: what else the host does then hits predicted and measured alike",
    )
    parser.add_argument("--rounds", type=int, default=1, help="loads of each way")
    arguments = parser.parse_args()
    checkpoints.make(arguments.shape, arguments.folder)
    os.environ["LLMCHAT_HOME"] = tempfile.mkdtemp(prefix="llmchat-bench-")
    wanted = [
        request
        for request in requests(int(arguments.gpu_budget * GIB))
        if not arguments.only or request.strategy in arguments.only
    ]
    outcomes: dict[int, Outcome] = {}
    for number in range(arguments.rounds):
        for index, request in enumerate(wanted):
            if index in outcomes and outcomes[index].plan.tokens_per_second < SLOW:
                continue
            try:
                now = await measure(arguments.folder, request, arguments.fresh)
            except Exception as error:  # one plan that fails must not end the table
                print(
                    f"{request.strategy} {request.precision} {request.kv}: {type(error).__name__}: {error}",
                    flush=True,
                )
                continue
            print(f"round {number}:", *rows(now), sep="\n", flush=True)
            before = outcomes.setdefault(index, now)
            if before is not now:
                before.speeds += now.speeds
                before.firsts += now.firsts
                before.loads += now.loads
    print("\nplanned / measured; GiB, tokens/s, seconds\n")
    print("| plan | device | weights | KV cache | compute | bytes ratio | tokens/s | first token | load |")
    print("|---|---|---|---|---|---|---|---|---|")
    for outcome in outcomes.values():
        print("\n".join(rows(outcome)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
