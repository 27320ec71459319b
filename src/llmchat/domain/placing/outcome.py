"""From a placement to a Plan, from a shortfall to a Refusal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from llmchat.domain.advice import reasons
from llmchat.domain.memory import CPU, DISK, Account, cuda, cuda_index, gib
from llmchat.domain.placing import rooms
from llmchat.domain.placing.blocks import Block
from llmchat.domain.placing.case import Case
from llmchat.domain.placing.rooms import Room
from llmchat.domain.plan import Plan, Precision, Refusal, Runner
from llmchat.domain.precision import quantized_share
from llmchat.domain.speed import predict
from llmchat.domain.words import amount, at, place

BFLOAT16_CAPABILITY = (8, 0)
"""From Ampere on GPUs multiply bfloat16 natively."""


def plan(
    case: Case,
    strategy: str,
    runner: Runner,
    parts: Iterable[tuple[Block, str]],
    main_device: str,
    used: Iterable[Room],
    because: Sequence[str],
    *,
    beside: Mapping[str, int] = {},
    overflow: predict.Overflow | None = None,
) -> Plan:
    """``parts``: each block and its device. ``used``: the GPUs that take part. ``beside``: bytes that a device
    needs beyond what each such GPU does, the engine process's own RAM aside. KV cache of an offloaded block lies
    on ``main_device``."""
    placed = tuple(parts)
    device_of = {name: device for block, device in placed for name in block.names}
    placement = {module.name: device_of[module.name] for module in case.model.modules}
    predicted = predict.predict(
        predict.Holding(
            case.model, case.hardware, case.precision, placement, main_device, case.context, case.kv, overflow
        )
    )
    learned = case.lesson.speed
    accounts = _accounts(case, placed, main_device, {room.device: room for room in used}, beside, overflow)
    return Plan(
        strategy=strategy,
        runner=runner,
        precision=case.precision,
        dtype=case.model.dtype,
        context=case.context,
        kv=case.kv,
        placement=placement,
        main_device=main_device,
        devices=accounts,
        tokens_per_second=predicted.tokens_per_second * learned,
        full_tokens_per_second=predicted.full_tokens_per_second * learned,
        time_to_first_token=predicted.time_to_first_token,
        formula=predicted.tokens_per_second,
        quantized_share=quantized_share(case.model, case.precision),
        because=(
            *because,
            *reasons.kv_cache(case.context, case.kv, accounts),
            *_quantized(case),
            *case.remarks,
            *_remarks(case, placement, main_device),
            *reasons.slower_when_full(predicted, case.lesson),
            *reasons.learned(case.lesson),
            *predicted.assumed,
        ),
    )


def short(case: Case, strategy: str, device: str, missing: int, *remedies: str) -> Refusal:
    """A refusal for ``missing`` bytes on ``device``; says so when it is the person's own budget that binds."""
    return Refusal(
        strategy=strategy,
        precision=case.precision,
        kv=case.kv,
        context=case.context,
        reason=f"{amount(missing)} more would be needed {at(device)}.",
        device=device,
        missing=missing,
        remedies=(*remedies, *_device_remedies(case, device, missing)),
    )


def _device_remedies(case: Case, device: str, missing: int) -> Iterable[str]:
    index = cuda_index(device)
    gpu = next((gpu for gpu in case.hardware.gpus if gpu.index == index), None)
    budget = case.request.ram_budget if gpu is None else case.request.gpu_budget.get(gpu.index)
    if budget is not None:
        yield f"Raise the budget of {place(device)} to {gib(budget + missing)}, if as much is free."
    if gpu is not None and missing <= rooms.other(gpu):
        yield f"End what else uses {place(device)}: it holds {gib(rooms.other(gpu))}."
    elif gpu is None:
        yield f"Free {amount(missing)} of RAM."


def _accounts(
    case: Case,
    placed: Sequence[tuple[Block, str]],
    main_device: str,
    used: Mapping[str, Room],
    beside: Mapping[str, int],
    overflow: predict.Overflow | None,
) -> dict[str, Account]:
    """Devices that hold something, by kind; ``cpu`` always, for the engine process lives there."""
    weights: dict[str, int] = {}
    kv: dict[str, int] = {}
    for block, device in placed:
        weights[device] = weights.get(device, 0) + block.weights
        holder = main_device if device in (CPU, DISK) else device
        kv[holder] = kv.get(holder, 0) + block.kv
    if case.kv_in_ram:
        kv[CPU] = case.kv_in_ram
    compute = {device: room.compute(kv.get(device, 0), beside.get(device, 0)) for device, room in used.items()}
    if overflow:
        weights[main_device] -= overflow.bytes
        weights[CPU] = weights.get(CPU, 0) + overflow.bytes
    accounts = {
        cuda(gpu.index): _account(weights, kv, compute, cuda(gpu.index), gpu.total, rooms.other(gpu))
        for gpu in case.hardware.gpus
        if cuda(gpu.index) in (weights.keys() | {main_device})
    }
    ram = {CPU: beside.get(CPU, 0) + rooms.engine_ram(case.hardware) + case.lesson.ram}
    total, available = case.hardware.ram_total, case.hardware.ram_available
    accounts[CPU] = _account(weights, kv, ram, CPU, total, max(0, total - available))
    if weights.get(DISK):
        accounts[DISK] = Account(weights=weights[DISK])
    return accounts


def _account(
    weights: Mapping[str, int],
    kv: Mapping[str, int],
    compute: Mapping[str, int],
    device: str,
    total: int,
    other: int,
) -> Account:
    held = Account(
        weights=weights.get(device, 0), kv_cache=kv.get(device, 0), compute=compute.get(device, 0), other=other
    )
    return msgspec.structs.replace(held, free=max(0, total - held.used))


def _quantized(case: Case) -> Iterable[str]:
    if case.precision is not Precision.PUBLISHED:
        share = quantized_share(case.model, case.precision)
        yield f"{case.precision} shrinks {share:.0%} of the parameters, not embeddings, norms and head"


def _remarks(case: Case, placement: Mapping[str, str], main_device: str) -> Iterable[str]:
    used = {*placement.values(), main_device}
    for gpu in (gpu for gpu in case.hardware.gpus if cuda(gpu.index) in used):
        if case.model.dtype == "bfloat16" and gpu.capability is not None and gpu.capability < BFLOAT16_CAPABILITY:
            yield f"GPU {gpu.index} has no bfloat16 units and emulates it: slower than predicted"
        if gpu.free is None:
            yield f"free memory of GPU {gpu.index} is unknown: all {gib(gpu.total)} are counted as free"
