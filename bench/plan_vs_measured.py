"""Is the plan's promise kept? Loads a checkpoint in several ways and sets planned beside measured.

    python bench/plan_vs_measured.py llama-8b /tmp/llama-8b --gpu-budget 6

One Markdown table: bytes by kind on each device, load time, tokens/s of three greedy replies of 64 tokens (the
median counts), and time to first token of a prompt of about 512 tokens. What does not fit here stands there with
the reason.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
from pathlib import Path

import checkpoints

from llmchat.domain.chat import Sampling
from llmchat.domain.memory import GIB, Account
from llmchat.domain.plan import Precision, Request
from llmchat.session.controller import Session
from llmchat.session.options import SessionOptions

REPLIES = 3
TOKENS = 64
SLOW, SLOW_TOKENS = 3.0, 12
"""Below so many tokens/s, predicted, one reply of so many tokens has to do."""
CONTEXT = 2048
LONG = "word " * 100  # five byte-level tokens each


def requests(budget: int) -> list[Request]:
    """Whole on the GPU in three precisions, managed, and offloaded under a budget of ``budget`` bytes."""
    small = {0: budget}
    return [
        *(Request(context=CONTEXT, strategy="single-gpu", precision=precision) for precision in Precision),
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
    ]


async def measure(folder: Path, request: Request) -> list[str]:
    """Rows of the table for one plan."""
    session = Session(SessionOptions(request=request, sampling=Sampling(temperature=0)))
    await session.start()
    try:
        session.open(str(folder))
        await session.wait_ready()
        state = session.state
        plan, measured = state.plan, state.measured
        assert plan and measured
        slow = plan.tokens_per_second < SLOW
        session.set_sampling(Sampling(temperature=0, max_tokens=SLOW_TOKENS if slow else TOKENS))
        speeds, firsts = [], []
        for number in range(1 if slow else REPLIES):
            session.new_chat()
            session.send(f"{number} {LONG}")
            await session.wait_reply()
            assert session.state.chat
            stats = session.state.chat.turns[-1].stats
            assert stats
            speeds.append(stats.tokens_per_second or 0.0)
            firsts.append(stats.time_to_first_token)
        speed, first = statistics.median(speeds), statistics.median(firsts)
        rows = []
        for device, planned in sorted(plan.devices.items()):
            got = measured.get(device, Account())
            rows.append(
                f"| {plan.label} | {device} | {pair(planned.weights, got.weights)} "
                f"| {pair(planned.compute, got.compute)} | {planned.kv_cache / GIB:.2f} "
                f"| {plan.tokens_per_second:.2f} / {speed:.2f} (first reply {speeds[0]:.2f}) "
                f"| {plan.time_to_first_token:.2f} / {first:.2f} | {state.load_seconds or 0:.1f} |"
            )
        return rows
    finally:
        await session.close()


def pair(planned: int, measured: int) -> str:
    return f"{planned / GIB:.2f} / {measured / GIB:.2f}"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=checkpoints.SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu-budget", type=float, default=6.0, help="GiB, for the offloading strategies")
    parser.add_argument("--only", nargs="*", help="strategies to measure; all by default")
    arguments = parser.parse_args()
    checkpoints.make(arguments.shape, arguments.folder)
    os.environ["LLMCHAT_HOME"] = tempfile.mkdtemp(prefix="llmchat-bench-")
    print("planned / measured; GiB, tokens/s, seconds\n")
    print("| plan | device | weights | compute | KV at full context | tokens/s | first token | load |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for request in requests(int(arguments.gpu_budget * GIB)):
        if arguments.only and request.strategy not in arguments.only:
            continue
        try:
            rows = await measure(arguments.folder, request)
        except Exception as error:  # one plan that fails must not end the table
            rows = [f"| {request.strategy} {request.precision} | - | {type(error).__name__}: {error} | | | | | |"]
        print("\n".join(rows), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
