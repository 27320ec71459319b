"""What every strategy owes, whatever the model and the machine: checked on generated ones."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planner_cases import STRATEGIES, freed

from llmchat.domain.hardware import Gpu, HardwareProfile, Software
from llmchat.domain.memory import CPU, DISK, cuda
from llmchat.domain.model import LayerCache, ModelFacts, Module
from llmchat.domain.placing.case import Case, Strategy
from llmchat.domain.placing.fill import Space
from llmchat.domain.placing.reserve import CUDA_CONTEXT
from llmchat.domain.placing.rooms import SYSTEM_RAM
from llmchat.domain.plan import Kv, Plan, Precision, Proposal, Refusal, Request
from llmchat.domain.precision import model_bytes

MIB = 2**20
CONTEXT = 2048
SOFTWARE = Software(torch="2.13.0", torch_cuda="13.0", bitsandbytes="0.50.2", rmm="26.10.0")

Question = tuple[ModelFacts, HardwareProfile, Request, Precision, Kv]

SIZES = [MIB * n for n in (1, 40, 120, 200, 333, 800)]
BUDGETS = [MIB * n for n in (0, 700, 1500, 4000, 9000)]
"""Drawn evenly, so that plans and refusals, spills and splits all come up often."""
sizes = st.sampled_from(SIZES)


@st.composite
def caches(draw: st.DrawFn) -> LayerCache:
    return LayerCache(
        per_token=draw(st.integers(0, 64)) * 1024,
        window=draw(st.sampled_from([None, 512, 4096])),
        constant=draw(st.sampled_from([0, 3 * MIB])),
    )


@st.composite
def models(draw: st.DrawFn) -> ModelFacts:
    """Some layers, even or uneven, with tied head or an own one, sometimes with layers that share tensors."""
    count = draw(st.sampled_from([16, 9, 24, 4, 2, 1]))
    same = draw(st.sampled_from([True, True, False]))
    layer_sizes = [draw(sizes)] * count if same else [draw(sizes) for _ in range(count)]
    cache = draw(caches())
    linear = draw(st.sampled_from([0, 9, 10]))
    layers = [
        Module(
            name=f"layers.{index}",
            kind="layer",
            bytes=size,
            linear_params=size * linear // 20,
            linear_bytes=size * linear // 10,
            active_bytes=size,
            largest_tensor=size // 4,
            cache=cache if same else draw(caches()),
        )
        for index, size in enumerate(layer_sizes)
    ]
    table, tied = draw(st.sampled_from(SIZES[:4])), draw(st.booleans())
    modules = (
        Module(name="embed", kind="embedding", bytes=table, active_bytes=8192, largest_tensor=table),
        *layers,
        Module(name="norm", kind="norm", bytes=8192, active_bytes=8192, largest_tensor=8192),
        Module(name="head", kind="head", bytes=0 if tied else table, active_bytes=table),
    )
    groups = [("embed", "head")] if tied else []
    if count > 2 and draw(st.booleans()):
        groups.append(("layers.0", f"layers.{count - 1}"))
    return ModelFacts(
        id="made-up",
        architecture="MadeUp",
        dtype="bfloat16",
        parameters=sum(m.bytes for m in modules) // 2,
        hidden_size=draw(st.sampled_from([64, 1024, 4096])),
        vocab_size=32000,
        max_context=None,
        modules=modules,
        tied=tuple(groups),
    )


@st.composite
def machines(draw: st.DrawFn) -> HardwareProfile:
    """0 to 4 GPUs, full and empty ones, of unknown free memory, or one that shares the RAM."""
    kind = draw(st.sampled_from(["discrete"] * 5 + ["coherent", "integrated"]))
    count = draw(st.sampled_from([1, 2, 3, 4, 0])) if kind == "discrete" else 1
    gpus = tuple(_gpu(draw, index, kind) for index in range(count))
    available = draw(st.sampled_from([9000, 14000, 20000, 30000, 4000, 1000])) * MIB
    return HardwareProfile(
        gpus=gpus,
        ram_total=available + draw(st.integers(0, 8000)) * MIB,
        ram_available=available,
        software=SOFTWARE,
    )


def _gpu(draw: st.DrawFn, index: int, kind: str) -> Gpu:
    total = draw(st.sampled_from([2500, 1700, 4000, 7000, 12000, 256])) * MIB
    share = draw(st.sampled_from([1.0, 0.97, 0.9, 0.8, 0.4, 0.0, None]))
    managed = draw(st.sampled_from(["paged", "paged", "host-tables", "none"])) if kind == "discrete" else kind
    return Gpu(
        index=index,
        name=draw(st.sampled_from(["NVIDIA H200", "Tesla V100-SXM2-16GB", "something else"])),
        total=total,
        free=None if share is None else int(total * share),
        capability=draw(st.sampled_from([None, (7, 0), (9, 0)])),
        managed=managed,  # type: ignore[arg-type]
    )


@st.composite
def questions(draw: st.DrawFn) -> Question:
    hardware = draw(machines())
    capped = [gpu.index for gpu in hardware.gpus if draw(st.sampled_from([False] * 5 + [True]))]
    chosen = tuple(gpu.index for gpu in reversed(hardware.gpus)) if draw(st.sampled_from([0, 0, 0, 1])) else ()
    request = Request(
        gpus=chosen[: draw(st.sampled_from([4, 2]))],
        gpu_budget={index: draw(st.sampled_from(BUDGETS)) for index in capped},
        ram_budget=draw(st.sampled_from([None, None, None, None, 700 * MIB, 5000 * MIB, 9000 * MIB])),
    )
    precisions = [Precision.PUBLISHED, Precision.PUBLISHED, Precision.INT4, Precision.INT8]
    policies: list[Kv] = ["device", "device", "device", "8bit", "ram"]
    return draw(models()), hardware, request, draw(st.sampled_from(precisions)), draw(st.sampled_from(policies))


many = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
each = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)


def ask(strategy: Strategy, question: Question) -> Proposal:
    model, hardware, request, precision, kv = question
    return strategy.answer(Case(model, hardware, request, precision, CONTEXT, kv))


@each
@many
@given(question=questions())
def test_plan_places_each_module_once_within_what_is_free(strategy: Strategy, question: Question) -> None:
    model, hardware, request, precision, kv = question
    answer = ask(strategy, question)
    assert (answer.strategy, answer.precision, answer.kv) == (strategy.name, precision, kv)
    assert answer.context == CONTEXT
    if isinstance(answer, Plan):
        check_placement(answer, model, hardware, request)
        check_bytes(answer, model, hardware, request)
        assert 0 < answer.tokens_per_second < math.inf
        assert 0 < answer.time_to_first_token < math.inf
        assert answer.because


def check_placement(plan: Plan, model: ModelFacts, hardware: HardwareProfile, request: Request) -> None:
    gpus = {cuda(index) for index in request.gpus or [gpu.index for gpu in hardware.gpus]}
    assert list(plan.placement) == [module.name for module in model.modules]
    assert set(plan.placement.values()) <= gpus | {CPU, DISK}
    assert plan.main_device in gpus | {CPU}
    for names in model.tied:
        assert len({plan.placement[name] for name in names}) == 1
    if plan.runner != "offloaded":
        assert DISK not in plan.placement.values()
        assert (plan.main_device == CPU) == (CPU in plan.placement.values())


def check_bytes(plan: Plan, model: ModelFacts, hardware: HardwareProfile, request: Request) -> None:
    accounts = plan.devices
    assert sum(a.weights for a in accounts.values()) == pytest.approx(model_bytes(model, plan.precision), abs=99)
    kept = sum(a.kv_cache for a in accounts.values())
    assert kept == model.kv_bytes(CONTEXT) or plan.kv != "device"
    if plan.kv == "8bit":
        assert model.kv_bytes(CONTEXT) / 2 <= kept <= model.kv_bytes(CONTEXT)
    for gpu in hardware.gpus:
        account = accounts.get(cuda(gpu.index))
        if account is None:
            continue
        assert account.engine <= (gpu.total if gpu.free is None else gpu.free)
        assert account.engine <= request.gpu_budget.get(gpu.index, account.engine)
        assert account.compute >= CUDA_CONTEXT
        assert account.total == pytest.approx(gpu.total)
        if gpu.managed == "integrated":
            assert account.engine + accounts[CPU].engine <= hardware.ram_available - SYSTEM_RAM
    assert accounts[CPU].engine <= hardware.ram_available - SYSTEM_RAM
    if request.ram_budget is not None:
        assert accounts[CPU].engine <= request.ram_budget


@each
@many
@given(question=questions())
def test_missing_bytes_are_true(strategy: Strategy, question: Question) -> None:
    """Given what a refusal says is missing, the strategy fits or another device turns out to be short."""
    model, hardware, request, precision, kv = question
    answer = ask(strategy, question)
    seen: set[str] = set()
    while isinstance(answer, Refusal):
        assert answer.reason.endswith(".")
        assert (answer.missing > 0) == (answer.device is not None)
        if answer.device is None:
            return
        assert answer.device not in seen, f"{answer.device} is short again"
        seen.add(answer.device)
        hardware, request = freed(hardware, request, answer.device, answer.missing)
        answer = ask(strategy, (model, hardware, request, precision, kv))


@each
@many
@given(question=questions())
def test_less_than_what_is_missing_is_not_enough(strategy: Strategy, question: Question) -> None:
    """The shortfall is exact: a MiB less on that device and it is still short."""
    model, hardware, request, precision, kv = question
    answer = ask(strategy, question)
    if isinstance(answer, Refusal) and answer.missing > MIB:
        hardware, request = freed(hardware, request, answer.device or "", answer.missing - MIB)
        assert isinstance(ask(strategy, (model, hardware, request, precision, kv)), Refusal)


@each
@many
@given(question=questions(), data=st.data())
def test_more_memory_never_refuses_nor_slows_down(
    strategy: Strategy, question: Question, data: st.DataObject
) -> None:
    model, hardware, request, precision, kv = question
    answer = ask(strategy, question)
    for device in [cuda(gpu.index) for gpu in hardware.gpus] + [CPU]:
        amount = data.draw(st.sampled_from([0, 11, 150, 700, 2500, 9000]), label=device)
        hardware, request = freed(hardware, request, device, amount * MIB)
    more = ask(strategy, (model, hardware, request, precision, kv))
    assert isinstance(more, Plan) or isinstance(answer, Refusal)
    if isinstance(more, Plan) and isinstance(answer, Plan):
        assert more.tokens_per_second >= answer.tokens_per_second * 0.999


@each
@many
@given(question=questions())
def test_same_question_same_answer(strategy: Strategy, question: Question) -> None:
    assert ask(strategy, question) == ask(strategy, question)


@many
@given(question=questions())
def test_no_layer_is_off_the_gpus_while_one_has_room(question: Question) -> None:
    """On the main GPU its weights alone would have to fit, for its KV cache is there already."""
    model, hardware, request, precision, kv = question
    case = Case(model, hardware, request, precision, CONTEXT, kv)
    answer = STRATEGIES["ram-offload"].answer(case)
    if not isinstance(answer, Plan):
        return
    away = [block for block in case.blocks.layers if answer.placement[block.names[0]] == CPU]
    for room in case.gpus:
        account = answer.devices.get(room.device)
        main = room.device == answer.main_device
        left = room.space
        if account:
            left = Space(left.loading - account.weights, room.capacity - account.engine)
        for block in away:
            assert not left.holds(Space(block.weights, block.weights) if main else block.space)
