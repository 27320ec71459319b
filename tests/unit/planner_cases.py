"""Real models and machines from tests/data, and small ways to change them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import GIB, cuda_index
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan, Precision, Ranking, Refusal, Request
from llmchat.domain.strategies import ALL

DATA = Path(__file__).parents[1] / "data"
MODELS = tuple(sorted(path.stem for path in (DATA / "models").glob("*.json")))
MACHINES = tuple(sorted(path.stem for path in (DATA / "hardware").glob("*.json")))
STRATEGIES = {strategy.name: strategy for strategy in ALL}


@cache
def model(name: str) -> ModelFacts:
    return msgspec.json.decode((DATA / "models" / f"{name}.json").read_bytes(), type=ModelFacts)


@cache
def machine(name: str) -> HardwareProfile:
    return msgspec.json.decode((DATA / "hardware" / f"{name}.json").read_bytes(), type=HardwareProfile)


SMOL = "smollm2-135m-instruct"
LLAMA_8B = "llama-3.1-8b-instruct"
LLAMA_70B = "llama-3.1-70b-instruct"
LLAMA_405B = "llama-3.1-405b-instruct"
WIZARD_13B = "wizardlm-13b-v1.2"
MIXTRAL = "mixtral-8x7b-instruct-v0.1"
GEMMA_27B = "gemma-3-27b-it"


def with_gpu(hardware: HardwareProfile, index: int, **changes: object) -> HardwareProfile:
    """The machine with fields of one GPU replaced."""
    gpus = tuple(msgspec.structs.replace(g, **changes) if g.index == index else g for g in hardware.gpus)
    return msgspec.structs.replace(hardware, gpus=gpus)


def with_software(hardware: HardwareProfile, **changes: object) -> HardwareProfile:
    return msgspec.structs.replace(hardware, software=msgspec.structs.replace(hardware.software, **changes))


def freed(hardware: HardwareProfile, request: Request, device: str, count: int) -> tuple[HardwareProfile, Request]:
    """``count`` bytes more that the engine may use on ``device``: free memory, and the person's budget for it."""
    index = cuda_index(device)
    gpu = next((gpu for gpu in hardware.gpus if gpu.index == index), None)
    if gpu is not None:
        free = None if gpu.free is None else gpu.free + count
        total = gpu.total + count if free is None else max(gpu.total, free)
        hardware = with_gpu(hardware, gpu.index, free=free, total=total)
        if gpu.index in request.gpu_budget:
            budgets = request.gpu_budget | {gpu.index: request.gpu_budget[gpu.index] + count}
            request = msgspec.structs.replace(request, gpu_budget=budgets)
    if gpu is None or gpu.managed == "integrated":
        available = hardware.ram_available + count
        total = max(hardware.ram_total, available)
        hardware = msgspec.structs.replace(hardware, ram_available=available, ram_total=total)
        if request.ram_budget is not None:
            request = msgspec.structs.replace(request, ram_budget=request.ram_budget + count)
    return hardware, request


def proposal(ranking: Ranking, strategy: str, precision: Precision = Precision.PUBLISHED) -> Plan | Refusal:
    """With the KV cache where it usually is."""
    way = (strategy, precision, "device")
    return next(p for p in ranking.proposals if (p.strategy, p.precision, p.kv) == way)


def plan(ranking: Ranking, strategy: str, precision: Precision = Precision.PUBLISHED) -> Plan:
    found = proposal(ranking, strategy, precision)
    assert isinstance(found, Plan), found
    return found


def refusal(ranking: Ranking, strategy: str, precision: Precision = Precision.PUBLISHED) -> Refusal:
    found = proposal(ranking, strategy, precision)
    assert isinstance(found, Refusal), found
    return found


def in_gib(count: int) -> float:
    return count / GIB
