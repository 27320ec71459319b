"""Session states for the screens' tests: a machine of four GPUs with a 70B model, and one without a GPU."""

from __future__ import annotations

import math

from msgspec.structs import replace

from llmchat.domain.chat import Chat, ReplyStats, StopReason, Turn
from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.domain.memory import CPU, GIB, Account, cuda
from llmchat.domain.model import LayerCache, ModelFacts, Module
from llmchat.domain.plan import Plan, Precision, Ranking, Refusal, Runner
from llmchat.errors import Problem
from llmchat.session.state import (
    GpuSample,
    HubAccount,
    MemorySample,
    ModelRef,
    Notice,
    Phase,
    Reply,
    SessionState,
    Step,
)

NOW = 1000.0
"""The clock of every test."""
CREATED = 1_780_000_000.0

FOUR_GPUS = HardwareProfile(
    name="four GPUs",
    gpus=tuple(Gpu(index=i, name="NVIDIA H100 80GB HBM3", total=80 * GIB, free=int(79.2 * GIB)) for i in range(4)),
    ram_total=503 * GIB,
    ram_available=471 * GIB,
    disk_free=1200 * GIB,
    cores=64,
)
NO_GPU = HardwareProfile(name="laptop", ram_total=16 * GIB, ram_available=11 * GIB, disk_free=90 * GIB, cores=2)

LLAMA = ModelRef(kind="hub", id="meta-llama/Llama-3.3-70B-Instruct", size=141_107_412_992)
SMOLLM = ModelRef(kind="embedded", id="smollm2", size=269_060_552, note="converted once, about 30 s")
MODELS = (
    SMOLLM,
    LLAMA,
    ModelRef(kind="hub", id="Qwen/Qwen3-30B-A3B-Instruct-2507", size=61_100_000_000, present=False),
    ModelRef(kind="hub", id="google/gemma-3-27b-it", size=54_900_000_000),
    ModelRef(kind="local", id="/data/models/mistral-small-24b-finetuned-on-our-own-tickets", size=47_200_000_000),
)


def facts(layers: int = 80, layer: int = 1_711_308_800, ends: int = 2_101_346_304) -> ModelFacts:
    """A Llama of ``layers`` layers of ``layer`` bytes, embeddings and head of ``ends`` bytes each."""
    body = tuple(
        Module(
            name=f"model.layers.{i}",
            kind="layer",
            bytes=layer,
            active_bytes=layer,
            cache=LayerCache(per_token=4096),
        )
        for i in range(layers)
    )
    return ModelFacts(
        id=LLAMA.id,
        architecture="LlamaForCausalLM",
        dtype="bfloat16",
        parameters=70_553_706_496,
        hidden_size=8192,
        vocab_size=128_256,
        max_context=131_072,
        modules=(
            Module(name="model.embed_tokens", kind="embedding", bytes=ends, active_bytes=16_384),
            *body,
            Module(name="lm_head", kind="head", bytes=ends, active_bytes=ends),
        ),
    )


def account(weights: float = 0, kv: float = 0, compute: float = 0, other: float = 0, free: float = 0) -> Account:
    """GiB by kind."""
    return Account(
        weights=int(weights * GIB),
        kv_cache=int(kv * GIB),
        compute=int(compute * GIB),
        other=int(other * GIB),
        free=int(free * GIB),
    )


def plan(
    strategy: str,
    precision: Precision,
    speed: float,
    devices: dict[str, Account],
    layers: dict[str, int],
    *because: str,
    context: int = 8192,
    runner: Runner = "resident",
) -> Plan:
    """``layers`` are counts per device, in order."""
    names = [device for device, count in layers.items() for _ in range(count)]
    placement = {f"model.layers.{i}": device for i, device in enumerate(names)}
    first = next(iter(layers))
    return Plan(
        strategy=strategy,
        runner=runner,
        precision=precision,
        dtype="bfloat16",
        context=context,
        placement={"model.embed_tokens": first, **placement, "lm_head": names[-1]},
        main_device=first,
        devices=devices,
        tokens_per_second=speed,
        time_to_first_token=0.4 if speed > 5 else 12.0,
        because=because,
    )


def _even(weights: float, kv: float, compute: float, gpus: int = 4) -> dict[str, Account]:
    return {cuda(i): account(weights, kv, compute) for i in range(gpus)}


MULTI = plan(
    "multi-gpu",
    Precision.PUBLISHED,
    14.2,
    _even(32.9, 0.6, 1.4) | {CPU: account(compute=3.1)},
    {cuda(i): 20 for i in range(4)},
    "131 GiB of weights do not fit on one GPU of 80 GiB; 20 layers go to each of 4 GPUs.",
    "The GPUs answer in turn: one token reads 131 GiB at 1.9 TiB/s.",
)
OFFLOAD = plan(
    "ram-offload",
    Precision.PUBLISHED,
    0.74,
    {cuda(0): account(72.3, 2.5, 2.2), CPU: account(58.7, 0, 4.0)},
    {cuda(0): 44, CPU: 36},
    "44 of 80 layers stay on GPU 0, 36 come from RAM over the link at 55 GB/s.",
    runner="offloaded",
)
INT4 = plan(
    "single-gpu",
    Precision.INT4,
    21.5,
    {cuda(0): account(37.2, 2.5, 2.6), CPU: account(compute=3.1)},
    {cuda(0): 80},
    "4-bit weights take 37 GiB and fit on GPU 0.",
)
PLANS = (
    MULTI,
    plan(
        "multi-gpu", Precision.INT8, 19.8, _even(17.1, 0.6, 1.6), {cuda(i): 20 for i in range(4)}, "Less to read."
    ),
    INT4,
    plan(
        "single-gpu",
        Precision.INT8,
        11.9,
        {cuda(0): account(68.4, 2.5, 2.6), CPU: account(compute=3.1)},
        {cuda(0): 80},
        "Fits on GPU 0 with 5.7 GiB to spare.",
    ),
    plan(
        "multi-gpu", Precision.INT4, 24.1, _even(9.3, 0.6, 1.6), {cuda(i): 20 for i in range(4)}, "Least to read."
    ),
    OFFLOAD,
    plan(
        "managed", Precision.PUBLISHED, 0.31, {cuda(0): account(131.4, 2.5, 2.2)}, {cuda(0): 80}, "Pages migrate."
    ),
    plan(
        "cpu",
        Precision.PUBLISHED,
        1.1,
        {CPU: account(131.4, 2.5, 4.0)},
        {CPU: 80},
        "All in RAM.",
        runner="resident",
    ),
)
REFUSALS = (
    Refusal(
        strategy="single-gpu",
        precision=Precision.PUBLISHED,
        context=8192,
        reason="GPU 0 has 79.2 GiB free and would hold 136.1 GiB.",
        device=cuda(0),
        missing=int(56.9 * GIB),
        remedies=("4bit weights: 42.3 GiB in all.", "multi-gpu spreads the layers over 4 GPUs."),
    ),
    Refusal(
        strategy="disk-offload",
        precision=Precision.INT4,
        context=8192,
        reason="bitsandbytes cannot keep quantized weights on disk.",
    ),
)
RANKING = Ranking(
    proposals=PLANS + REFUSALS,
    best=MULTI,
    why="The weights as published at 14.2 tok/s, faster than the 8 tok/s that read comfortably.",
)
CPU_PLAN = plan(
    "cpu", Precision.PUBLISHED, 18.4, {CPU: account(0.25, 0.18, 0.42)}, {CPU: 30}, "There is no GPU; RAM has room."
)
CPU_RANKING = Ranking(
    proposals=(
        CPU_PLAN,
        Refusal(
            strategy="single-gpu", precision=Precision.PUBLISHED, context=8192, reason="This machine has no GPU."
        ),
        Refusal(
            strategy="ram-offload", precision=Precision.PUBLISHED, context=8192, reason="This machine has no GPU."
        ),
    ),
    best=CPU_PLAN,
    why="The only strategy that works without a GPU.",
)


def memory(at: float = 0.0, fill: float = 1.0) -> MemorySample:
    """The four GPUs with the multi-gpu plan loaded to the share ``fill``, uneven in use."""
    gpus = []
    for i in range(4):
        other = (0.8, 0.8, 11.5, 0.8)[i]
        held = (32.9 * fill, 0.2 * fill, 1.3 * fill)
        unaccounted = int((0.0, 0.4, 0.0, 0.0)[i] * GIB)
        free = 80 - sum(held) - other - unaccounted / GIB
        gpus.append(
            GpuSample(
                index=i,
                name="NVIDIA H100 80GB HBM3",
                account=replace(account(*held, other, free), unaccounted=unaccounted),
                utilization=(0.24, 0.26, 0.25, 0.22)[i],
                temperature=(54.0, 56.0, 61.0, 53.0)[i],
                power=(212.0, 220.0, 241.0, 208.0)[i],
            )
        )
    ram = account(0, 0, 3.4, 28.6, 471.0)
    return MemorySample(time=at, gpus=tuple(gpus), ram=ram, engine_pid=4711, cpu_utilization=0.04)


def small_memory(at: float = 0.0, fill: float = 1.0) -> MemorySample:
    """The laptop with SmolLM2 in RAM."""
    ram = account(0.25 * fill, 0.05, 0.4, 4.9, 10.4)
    return MemorySample(time=at, ram=ram, ram_limit="cgroup", engine_pid=4711, cpu_utilization=0.87)


def stats(tokens: int, prompt: int, reason: StopReason = "end") -> ReplyStats:
    return ReplyStats(
        prompt_tokens=prompt, tokens=tokens, time_to_first_token=0.41, seconds=(tokens - 1) / 14.1, reason=reason
    )


def chat(model: ModelRef, label: str) -> Chat:
    turns = (
        Turn(id="t1", role="user", content="What is the capital of France?", created=CREATED),
        Turn(
            id="t2",
            role="assistant",
            content="The capital of France is **Paris**. It lies on the Seine.",
            created=CREATED + 2,
            model=model.id,
            label=label,
            stats=stats(14, 38),
        ),
        Turn(id="t3", role="user", content="Write it as a Python constant.", created=CREATED + 20),
        Turn(
            id="t4",
            role="assistant",
            content='Here it is:\n\n```python\nCAPITAL = "Paris"\n```\n\nImport it where you need it.',
            created=CREATED + 23,
            model=model.id,
            label=label,
            stats=stats(31, 71),
        ),
    )
    return Chat(
        id="c1",
        title="The capital of France",
        created=CREATED,
        updated=CREATED + 23,
        model=model.id,
        strategy=label,
        turns=turns,
    )


def idle(*, gpus: bool = True, logged_in: bool = False) -> SessionState:
    """The picker's state."""
    account_ = HubAccount(name="ada", source="stored", role="read") if logged_in else HubAccount()
    return SessionState(
        engine="ready",
        hardware=FOUR_GPUS if gpus else NO_GPU,
        models=MODELS if gpus else MODELS[:1],
        account=account_,
        memory=memory(fill=0) if gpus else small_memory(fill=0),
    )


def signed_in(*, gpus: bool = True) -> SessionState:
    return idle(gpus=gpus, logged_in=True)


def loading(*, gpus: bool = True) -> SessionState:
    step = Step(stage="Reading weights", done=int(48.2 * GIB), total=int(131.4 * GIB), unit="bytes", started=990.0)
    return replace(
        idle(gpus=gpus),
        phase=Phase.LOADING,
        model=LLAMA if gpus else SMOLLM,
        facts=facts() if gpus else facts(layers=30, layer=7_000_000, ends=56_000_000),
        ranking=RANKING if gpus else CPU_RANKING,
        plan=MULTI if gpus else CPU_PLAN,
        step=step
        if gpus
        else Step(stage="Converting the GGUF file", done=120, total=272, unit="tensors", started=985),
    )


def ready(*, gpus: bool = True) -> SessionState:
    model, best = (LLAMA, MULTI) if gpus else (SMOLLM, CPU_PLAN)
    sampler = memory if gpus else small_memory
    wave = [sampler(float(i), 0.55 + 0.45 * math.sin(i / 9) ** 2) for i in range(60)]
    return replace(
        loading(gpus=gpus),
        phase=Phase.READY,
        step=None,
        chat=chat(model, best.label),
        measured=_even(32.9, 0.2, 1.3) | {CPU: account(0, 0, 3.4)} if gpus else {CPU: account(0.25, 0.05, 0.4)},
        measured_speed=14.1 if gpus else 17.9,
        load_seconds=31.0,
        memory=sampler(),
        history=(*wave, sampler(60.0)),
    )


def generating(*, gpus: bool = True) -> SessionState:
    state = ready(gpus=gpus)
    assert state.chat is not None
    turns = (*state.chat.turns, Turn(id="t5", role="user", content="And in Rust?", created=CREATED + 60))
    reply = Reply(
        turn_id="t6",
        answer='In Rust it is a `const`:\n\n```rust\npub const CAPITAL: &str = "Par',
        tokens=24,
        started=NOW - 3,
        first_token=NOW - 2,
        prompt_tokens=120,
    )
    notice = Notice(after=4, text="switched to multi-gpu; the chat goes on")
    return replace(
        state, phase=Phase.GENERATING, reply=reply, chat=replace(state.chat, turns=turns), notices=(notice,)
    )


def offloaded(*, gpus: bool = True) -> SessionState:
    """The first GPU full, the rest in RAM; without GPUs just the loaded model."""
    if not gpus:
        return ready(gpus=False)
    sample = memory(fill=0)
    first = replace(sample.gpus[0], account=account(72.3, 0.6, 2.1, 0.8, 4.2), utilization=0.31, power=188.0)
    held = replace(sample, gpus=(first, *sample.gpus[1:]), ram=account(58.7, 0, 3.9, 28.6, 411.8))
    return replace(
        ready(),
        plan=OFFLOAD,
        measured={cuda(0): account(72.3, 0.6, 2.1), CPU: account(58.7, 0, 3.9)},
        measured_speed=0.71,
        memory=held,
        history=(held,) * 30,
    )


OUT_OF_MEMORY = Problem(
    kind="OutOfMemory",
    title="GPU 2 is full",
    message="GPU 2 ran out of memory at token 3,120: 1.2 GiB were asked for and 0.4 GiB were free. "
    "Another program holds 11.5 GiB there.",
    remedy="Reload with a smaller context, take another strategy (F4), or end the other program.",
)


ENGINE_DIED = Problem(
    kind="EngineDied",
    title="The engine was killed",
    message="It ended with signal 9 while it read the weights: most likely the machine ran out of RAM.",
    remedy="Reload, or take a plan that needs less RAM (F4).",
)


def failed(*, gpus: bool = True) -> SessionState:
    return replace(
        ready(gpus=gpus),
        phase=Phase.FAILED,
        engine="down",
        problem=OUT_OF_MEMORY if gpus else ENGINE_DIED,
        measured=None,
    )


SAVED = tuple(
    Chat(id=f"c{i}", title=title, created=CREATED, updated=CREATED - i * 86_000, model=LLAMA.id)
    for i, title in enumerate(
        (
            "The capital of France",
            "Sorting a linked list in Rust",
            "A letter to the landlord",
            "Why is the sky blue?",
        )
    )
)
