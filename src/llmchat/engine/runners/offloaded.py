"""Some weights lie in RAM or on disk; accelerate's hooks bring a module to where it runs, then let it go."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import accelerate
from transformers.integrations import accelerate as integration

from llmchat.domain.memory import CPU, cuda_index
from llmchat.domain.plan import Precision
from llmchat.engine.runners.common import Job, Running, device, device_map, load
from llmchat.errors import UsageError


def run(job: Job) -> Running:
    """Raises UsageError for quantized weights: bitsandbytes leaves offloaded modules unquantized."""
    plan = job.plan
    if plan.precision is not Precision.PUBLISHED:
        raise UsageError(
            "Precision not possible",
            f"Weights in {plan.precision} cannot be offloaded: bitsandbytes would leave them unquantized.",
            "Choose the published precision, or a strategy that holds all weights on the GPUs (F4).",
        )
    devices = set(plan.placement.values())
    if devices == {CPU}:
        model = load(job, {"": CPU})
        accelerate.cpu_offload(model, execution_device=device(plan.main_device))
        return Running(model)
    folder = Path(tempfile.mkdtemp(prefix="llmchat-offload-"))
    try:
        with _executing_on(plan.main_device):
            model = load(job, device_map(plan.placement), offload_folder=str(folder))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Running(model, [partial(shutil.rmtree, folder, ignore_errors=True)])


@contextmanager
def _executing_on(main: str) -> Iterator[None]:
    """Have transformers dispatch with our main device: left alone, accelerate takes any GPU of the map."""
    original = integration.dispatch_model
    index = cuda_index(main)
    integration.dispatch_model = partial(original, main_device=main if index is None else index)
    try:
        yield
    finally:
        integration.dispatch_model = original
