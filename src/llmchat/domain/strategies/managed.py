"""Addressed to one GPU as CUDA managed memory: what the GPU cannot hold lies in RAM, and the driver moves pages.

On a coherent machine (GH200, GB200) the GPU reads Grace's memory directly: the way to hold a model that is larger
than the GPU. Over PCIe pages are moved by faults, and streaming is faster.
"""

from __future__ import annotations

import msgspec

from llmchat.domain.memory import CPU, GIB, gib
from llmchat.domain.placing import checks, outcome, rooms
from llmchat.domain.placing.case import Case, Strategy
from llmchat.domain.placing.fill import Space
from llmchat.domain.placing.rooms import Room
from llmchat.domain.plan import Plan, Proposal, Refusal
from llmchat.domain.speed.predict import Overflow
from llmchat.domain.words import at, place

NAME = "managed"
UNSHARED = GIB
"""Bytes that other processes (a desktop, the driver) may hold on a GPU that still counts as not shared: asking for
more managed memory than is free can hang a card that others use."""


def propose(case: Case) -> Proposal:
    if refusal := checks.no_gpu(case, NAME) or checks.not_quantizable(case, NAME) or _no_rmm(case):
        return refusal
    able = [room for room in case.gpus if room.gpu.managed != "none"]
    if not able:
        return checks.refused(case, NAME, "This GPU cannot hold more managed memory than it has (Windows, WSL).")
    answers = [_on(case, room) for room in able]
    plans = [answer for answer in answers if isinstance(answer, Plan)]
    if plans:
        return max(plans, key=lambda plan: plan.pace)
    return min((a for a in answers if isinstance(a, Refusal)), key=lambda refusal: refusal.missing)


def _no_rmm(case: Case) -> Refusal | None:
    software = case.hardware.software
    if software.rmm is not None:
        return None
    package = "rmm-cu13" if (software.torch_cuda or "").startswith("13") else "rmm-cu12"
    return checks.refused(case, NAME, f"{package} is not installed.", f"pip install {package}")


def _on(case: Case, room: Room) -> Plan | Refusal:
    """KV cache and activations are ordinary memory of the GPU; weights take the rest of it, and RAM."""
    weights, kv = case.blocks.weights, case.blocks.kv
    space = room.space
    if not space.holds(case.blocks.space) and (bound := _bound(case, room)):
        return _short_of(case, room, bound)
    if not space.holds(Space(0, kv)):
        return outcome.short(case, NAME, room.device, space.lacks(Space(0, kv)))
    over = max(0, weights - min(space.running - kv, space.loading))
    if over > case.ram:
        return outcome.short(case, NAME, CPU, over - case.ram)
    return outcome.plan(
        case,
        NAME,
        "managed",
        ((block, room.device) for block in case.blocks.all),
        room.device,
        [room],
        _because(room, over),
        overflow=Overflow(room.gpu, over, weights),
    )


def _bound(case: Case, room: Room) -> str:
    """Why this GPU must not be asked for more than it has; empty when it may."""
    if room.gpu.managed == "integrated":
        return "CPU and GPU share one memory: there is nothing to overflow to."
    if room.gpu.index in case.request.gpu_budget:
        return f"Managed memory fills the whole GPU before RAM: it cannot keep a budget on {place(room.device)}."
    if rooms.other(room.gpu) > UNSHARED:
        return (
            f"Other processes hold {gib(rooms.other(room.gpu))} {at(room.device)}: asking for more managed "
            "memory than is free can hang a shared GPU."
        )
    return ""


def _short_of(case: Case, room: Room, bound: str) -> Refusal:
    """All must fit, or nobody else may use the GPU."""
    missing = room.space.lacks(case.blocks.space)
    if room.gpu.managed != "integrated" and room.gpu.index not in case.request.gpu_budget:
        kv = room.space.lacks(Space(0, case.blocks.kv))
        missing = min(missing, max(kv, rooms.other(room.gpu) - UNSHARED))
    refusal = outcome.short(case, NAME, room.device, missing)
    return msgspec.structs.replace(refusal, reason=f"{bound} {refusal.reason}")


def _because(room: Room, over: int) -> tuple[str, ...]:
    if not over:
        return (f"all weights fit {at(room.device)}: no page has to move",)
    away = f"{gib(over)} of the weights lie in RAM"
    if room.gpu.managed == "coherent":
        return (f"{away}, which {place(room.device)} reads directly over NVLink-C2C",)
    return (
        f"{away}; over PCIe a pass over more than the GPU holds pages all of it in anew: that worst case is "
        "counted",
    )


STRATEGY = Strategy(NAME, "in CUDA managed memory, spilling over into RAM", propose)
