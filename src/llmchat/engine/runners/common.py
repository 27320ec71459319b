"""What every runner shares: the call of from_pretrained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from llmchat.domain.memory import CPU, DISK, cuda_index
from llmchat.domain.plan import Plan, Precision
from llmchat.engine.progress import weights_progress
from llmchat.engine.task import Task
from llmchat.errors import ModelError

BFLOAT16_FROM = (8, 0)
"""Compute capability from which a GPU multiplies bfloat16 in hardware."""


@dataclass
class Job:
    """One load, as a runner gets it."""

    folder: Path
    plan: Plan
    task: Task
    sizes: Mapping[str, int]
    """Bytes of every tensor of the model by its full name, for the progress."""
    auto_class: Any = AutoModelForCausalLM
    """Of transformers, for this model's config."""


@dataclass
class Running:
    """What a runner returns."""

    model: Any
    closers: list[Callable[[], None]] = field(default_factory=list)
    """To be called when the model is given up: temporary folders, pools."""


def device_map(placement: Mapping[str, str]) -> dict[str, int | str]:
    """The plan's placement in the spelling that transformers and accelerate order by: GPUs as ints."""
    return {name: device if (index := cuda_index(device)) is None else index for name, device in placement.items()}


def device(name: str) -> torch.device:
    """Of ``cuda:N`` or ``cpu``."""
    return torch.device(name)


def quantization(plan: Plan) -> BitsAndBytesConfig | None:
    """LLM.int8 for 8 bit; nf4 with double quantization for 4 bit; None for weights as published."""
    if plan.precision is Precision.PUBLISHED:
        return None
    if plan.precision is Precision.INT8:
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=compute_dtype(plan),
    )


def compute_dtype(plan: Plan) -> torch.dtype:
    """bfloat16; float16 where one of the GPUs has no bfloat16 in hardware."""
    gpus = {index for name in plan.placement.values() if (index := cuda_index(name)) is not None}
    old = any(torch.cuda.get_device_capability(index) < BFLOAT16_FROM for index in gpus)
    return torch.float16 if old else torch.bfloat16


def load(job: Job, placement: Mapping[str, int | str], **options: Any) -> Any:
    """from_pretrained with this explicit device map. Raises ModelError for weights that do not fit the config."""
    with weights_progress(job.task, job.sizes):
        model, info = job.auto_class.from_pretrained(
            job.folder,
            device_map=dict(placement),
            dtype=getattr(torch, job.plan.dtype),
            quantization_config=quantization(job.plan),
            local_files_only=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # reported below, by name
            output_loading_info=True,
            **options,
        )
    if missing := sorted(info["missing_keys"]):
        raise _wrong(job, f"{len(missing)} tensors are missing, such as {missing[0]}")
    if mismatched := sorted(info["mismatched_keys"]):
        name, there, wanted = mismatched[0]
        shapes = f"{name} is {list(there)} instead of {list(wanted)}"
        raise _wrong(job, f"{len(mismatched)} tensors have another shape than it says; {shapes}")
    return model


def _wrong(job: Job, what: str) -> ModelError:
    return ModelError(
        "Weights do not fit the model",
        f"The checkpoint in {job.folder} is not the model of its config.json: {what}.",
        "Download the model again, or choose another revision.",
    )


def offloads(plan: Plan) -> bool:
    """Whether some weights lie elsewhere than where they are used."""
    away = {CPU, DISK} - {plan.main_device}
    return bool(away & set(plan.placement.values()))
