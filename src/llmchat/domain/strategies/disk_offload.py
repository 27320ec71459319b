"""First the GPUs, then RAM, and what neither holds is read from the checkpoint on disk for every token.

Works without a GPU, too: then the CPU executes, and what RAM cannot hold comes from disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmchat.domain.memory import CPU, DISK, gib
from llmchat.domain.placing import checks, offload, outcome
from llmchat.domain.placing.blocks import Block
from llmchat.domain.placing.case import Case, Strategy
from llmchat.domain.plan import Plan, Proposal, Refusal
from llmchat.domain.words import place

NAME = "disk-offload"


@dataclass(frozen=True)
class Shelved:
    """Offloaded blocks by where they are kept."""

    ram: tuple[Block, ...]
    disk: tuple[Block, ...]
    staging: int
    """Bytes of RAM through which a block from disk passes: as many as the model's largest module has."""


def propose(case: Case) -> Proposal:
    if refusal := checks.not_offloadable(case, NAME):
        return refusal
    if checks.no_gpu(case, NAME):
        return _without_gpu(case)
    found, alone = _with_gpu(case), _without_gpu(case)
    if isinstance(found, Plan) and isinstance(alone, Plan):
        return max(found, alone, key=lambda plan: plan.pace)
    if isinstance(found, Refusal) and isinstance(alone, Refusal):
        return min(found, alone, key=lambda refusal: refusal.missing)
    return found if isinstance(found, Plan) else alone


def _with_gpu(case: Case) -> Plan | Refusal:
    found = case.split
    if isinstance(found, offload.Shortfall):
        return outcome.short(case, NAME, found.room.device, found.missing)
    shared = any(room.gpu.managed == "integrated" for room in case.gpus)
    shelved = Shelved((), found.offloaded, 0) if shared else _shelve(case, found.offloaded, case.ram)
    if isinstance(shelved, int):
        return outcome.short(case, NAME, CPU, shelved)
    return outcome.plan(
        case,
        NAME,
        "offloaded",
        (*((block, room.device) for block, room in found.kept), *_shelf(shelved)),
        found.main.device,
        found.rooms,
        (_because(case, shelved, found.main.device),),
        beside={found.main.device: found.staging, CPU: shelved.staging},
    )


def _without_gpu(case: Case) -> Plan | Refusal:
    fixed = case.blocks.kv + case.transient
    shelved = _shelve(case, case.blocks.all, case.ram - fixed)
    if isinstance(shelved, int):
        return outcome.short(case, NAME, CPU, shelved)
    return outcome.plan(
        case,
        NAME,
        "offloaded",
        _shelf(shelved),
        CPU,
        (),
        _without_gpu_because(case, shelved),
        beside={CPU: case.transient + shelved.staging},
    )


def _shelve(case: Case, blocks: Sequence[Block], room: int) -> Shelved | int:
    """In order into RAM while there is ``room``, the others to disk; bytes missing where none of it works."""
    whole = sum(block.weights for block in blocks)
    if whole <= room:
        return Shelved(tuple(blocks), (), 0)
    staging = max(block.largest for block in case.blocks.all)
    left = room - staging
    if left < 0:
        return min(-left, whole - room)
    ram: list[Block] = []
    for block in blocks:
        if block.weights > left:
            break
        ram.append(block)
        left -= block.weights
    return Shelved(tuple(ram), tuple(blocks[len(ram) :]), staging)


def _shelf(shelved: Shelved) -> list[tuple[Block, str]]:
    return [(block, CPU) for block in shelved.ram] + [(block, DISK) for block in shelved.disk]


def _because(case: Case, shelved: Shelved, main: str) -> str:
    layers = case.blocks.layers
    on_disk = sum(block in layers for block in shelved.disk)
    in_ram = sum(block in layers for block in shelved.ram)
    if not shelved.disk and not shelved.ram:
        return "everything fits on the GPUs: nothing lies on disk or in RAM, and nothing is moved"
    if not shelved.disk:
        return f"nothing lies on disk: the same as ram-offload, {in_ram} of {len(layers)} layers in RAM"
    read = gib(sum(block.weights for block in shelved.disk))
    where = f"{on_disk} of {len(layers)} layers on disk, {in_ram} in RAM"
    return f"{where}: {read} are read to {place(main)} for every token"


def _without_gpu_because(case: Case, shelved: Shelved) -> tuple[str, ...]:
    executed = "no GPU takes part: the CPU executes all layers"
    if shelved.disk:
        return (executed, _because(case, shelved, CPU))
    return ("everything fits in RAM: nothing lies on disk, and nothing is moved", executed)


STRATEGY = Strategy(NAME, "first the GPUs, then RAM, the rest read from disk", propose)
