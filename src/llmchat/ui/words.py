"""What the screens say about a state, in words. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import CPU, DISK, GIB, Account, cuda, cuda_index
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan
from llmchat.session import compared
from llmchat.session.state import MemorySample, ModelRef, Phase, Reply, SessionState
from llmchat.ui.bars import DOT

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""CSI, OSC and two-character sequences."""


def device_name(device: str) -> str:
    """``cuda:0`` as people say it: ``GPU 0``, ``RAM``, ``disk``."""
    index = cuda_index(device)
    return f"GPU {index}" if index is not None else {CPU: "RAM", DISK: "disk"}.get(device, device)


def number(count: int) -> str:
    """Bytes as GiB without the unit: ``0.26``, ``71.2``, ``503``."""
    value = count / GIB
    if value == 0:
        return "0"
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def size(count: int | None) -> str:
    """Bytes for a column: ``131 GiB``, ``257 MiB``; empty when not known."""
    if count is None:
        return ""
    return f"{number(count)} GiB" if count >= GIB else f"{count / 2**20:.0f} MiB"


def used_of(account: Account) -> str:
    """``71.2/80.0``: one number of digits on both sides, so that columns align."""
    digits = 0 if account.total >= 100 * GIB else 1
    return f"{account.used / GIB:,.{digits}f}/{account.total / GIB:,.{digits}f}"


def speed(tokens_per_second: float | None) -> str:
    """``3.1 tok/s``; below 1 two digits, from 100 none."""
    if tokens_per_second is None:
        return "unknown"
    digits = 2 if tokens_per_second < 1 else 1 if tokens_per_second < 100 else 0
    return f"{tokens_per_second:,.{digits}f} tok/s"


def predicted(plan: Plan) -> str:
    """``14.2 tok/s``; where a full context slows it down, ``14.2 tok/s (1.3 when full)``."""
    full = compared.full_speed(plan)
    return speed(plan.tokens_per_second) + (f" ({rate(full)} when full)" if full else "")


def rate(tokens_per_second: float) -> str:
    """``3.1``: a speed without its unit."""
    return speed(tokens_per_second).removesuffix(" tok/s")


def measured(state: SessionState) -> list[str]:
    """What the loaded plan turned out to be, beside what was predicted before its load: speed, then bytes."""
    plan = state.plan
    if plan is None or state.measured is None:
        return []
    devices = [device for device in state.measured if state.measured[device].engine or device in plan.devices]
    if state.measured_speed is None:
        pace = "its speed comes with the next reply of some length"
    else:
        pace = f"{speed(state.measured_speed)}, predicted {rate(plan.tokens_per_second)}"
    held = ", ".join(_beside(device, state.measured[device], plan.devices.get(device)) for device in devices)
    if any(account.kv_cache > _kv_cache(state.measured.get(device)) for device, account in plan.devices.items()):
        held += "; planned is with the KV cache full"
    return ["; ".join(filter(None, (pace, compared.first_token(state)))), held]


def _kv_cache(account: Account | None) -> int:
    return account.kv_cache if account else 0


def _beside(device: str, found: Account, planned: Account | None) -> str:
    """``GPU 0 71.2 GiB (planned 73.8)``."""
    plan = f"planned {number(planned.engine)}" if planned else "not planned"
    return f"{device_name(device)} {number(found.engine)} GiB ({plan})"


def duration(seconds: float) -> str:
    """``8 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def spread(plan: Plan, facts: ModelFacts | None) -> str:
    """Where the layers lie: ``12 of 80 layers in RAM``, ``80 layers over 4 GPUs``; empty when not known."""
    layers = [m.name for m in facts.layers] if facts else []
    counts = Counter(plan.placement[name] for name in layers if name in plan.placement)
    total = sum(counts.values())
    gpus = [device for device in counts if cuda_index(device) is not None]
    away = [
        f"{counts[d]} of {total} layers {words}"
        for d, words in ((CPU, "in RAM"), (DISK, "on disk"))
        if counts.get(d) and gpus
    ]
    if away:
        return " and ".join(away)
    if len(gpus) > 1:
        return f"{total} layers over {len(gpus)} GPUs"
    return f"all {total} layers {'on ' if gpus else 'in '}{device_name(next(iter(counts)))}" if total else ""


def standing(state: SessionState) -> str:
    """What is going on, on one line."""
    plan = state.plan
    if state.phase is Phase.FAILED and state.model:
        return "No model is loaded: F4 shows the strategies, F3 the models"
    if plan is None:
        return "No model is loaded: F3 chooses one"
    where = spread(plan, state.facts)
    found = f"measured {rate(state.measured_speed)}" if state.measured_speed else "not measured yet"
    return f"{plan.label}: {where + '; ' if where else ''}predicted {predicted(plan)}, {found}"


def used(state: SessionState) -> int:
    """Tokens of the context taken by now, those of the reply under way included."""
    if state.reply and state.reply.prompt_tokens:
        return state.reply.prompt_tokens + state.reply.tokens
    return state.context_used


def room(state: SessionState) -> str:
    """How many more tokens the chat can take and what ends it; empty without a plan."""
    plan = state.plan
    if plan is None or state.phase not in (Phase.READY, Phase.GENERATING):
        return ""
    left = max(0, plan.context - used(state))
    full = _first_full(state.memory, kv_per_token(plan, state.facts), plan)
    if full and full[0] < left:
        return f"about {_round(full[0])} more tokens until {device_name(full[1])} is full"
    if left == 0:
        return f"the context of {plan.context:,} tokens is full"
    return f"about {_round(left)} more tokens until the context of {plan.context:,} is full"


def kv_per_token(plan: Plan, facts: ModelFacts | None) -> dict[str, int]:
    """Bytes that one more token adds to the KV cache on each device; sliding windows count as full."""
    taken: dict[str, int] = {}
    for module in facts.layers if facts else ():
        device = plan.placement.get(module.name, plan.main_device)
        if cuda_index(device) is None:
            device = plan.main_device
        if module.cache.window is None:
            taken[device] = taken.get(device, 0) + module.cache.per_token
    return taken


def activity(state: SessionState) -> str:
    """What happens at this moment, for the last line; empty when nothing does."""
    if state.reply is not None:
        return _replying(state.reply)
    if state.phase in (Phase.PREPARING, Phase.LOADING, Phase.SWITCHING):
        return state.step.stage if state.step else "Starting"
    if state.phase is Phase.FAILED:
        return "no model loaded"
    return {"starting": "engine starting", "up": "engine starting", "down": "engine stopped"}.get(state.engine, "")


def _replying(reply: Reply) -> str:
    if reply.tokens:
        count = "1 token" if reply.tokens == 1 else f"{reply.tokens:,} tokens"
        return f"{'answering' if reply.answer else 'thinking'} {DOT} {count}"
    if reply.prompt_tokens and reply.prefill_done:
        return f"reading the prompt {DOT} {reply.prefill_done:,} of {reply.prompt_tokens:,}"
    return "reading the prompt"


def _first_full(sample: MemorySample | None, per_token: Mapping[str, int], plan: Plan) -> tuple[int, str] | None:
    """Tokens until the first device has no free byte left, and that device. A device whose KV cache already has
    the planned size was filled in advance: it grows no more."""
    if sample is None:
        return None
    now = {cuda(gpu.index): gpu.account for gpu in sample.gpus} | {CPU: sample.ram}
    planned = {device: account.kv_cache for device, account in plan.devices.items()}
    rooms = [
        (now[device].free // taken, device)
        for device, taken in per_token.items()
        if taken and device in now and now[device].total and now[device].kv_cache < planned.get(device, 0)
    ]
    return min(rooms, default=None)


def _round(tokens: int) -> str:
    """To two figures: an estimate must not look exact."""
    digits = max(0, len(str(tokens)) - 2)
    return f"{tokens // 10**digits * 10**digits:,}"


def where(model: ModelRef) -> str:
    """A model's place, for the picker."""
    return {"embedded": "built in", "local": "folder", "hub": "hub", "config": "config"}[model.kind]


def machine(hardware: HardwareProfile | None) -> str:
    """``4 x H100 80GB HBM3 · 320 GiB · RAM 503 GiB``; equal GPUs are counted."""
    if hardware is None:
        return "Looking at the machine"
    counts = Counter(gpu.name.removeprefix("NVIDIA ") for gpu in hardware.gpus)
    gpus = [name if count == 1 else f"{count} x {name}" for name, count in counts.items()] or ["no GPU"]
    memory = sum(gpu.total for gpu in hardware.gpus)
    if memory:
        gpus.append(f"{number(memory)} GiB on GPUs")
    limit = f" ({hardware.ram_limit})" if hardware.ram_limit else ""
    return f" {DOT} ".join(
        [*gpus, f"{number(hardware.ram_available)} of {number(hardware.ram_total)} GiB RAM free{limit}"]
    )


def printable(text: str) -> str:
    """Text of others without escape sequences and control characters, which could act on the terminal."""
    plain = _ESCAPE.sub("", text)
    return "".join(c for c in plain if c in "\n\t" or (ord(c) >= 32 and not 0x7F <= ord(c) < 0xA0))


def one_line(text: str) -> str:
    """Text of others for a single line."""
    return " ".join(printable(text).split())
