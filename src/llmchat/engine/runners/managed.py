"""Weights in CUDA managed memory through RMM: pages lie on the GPU or in RAM, and the driver moves them.

Only the weights: the pool is in force while they are loaded. All else stays with torch's own allocator, so that
memory statistics, ``empty_cache`` and CUDA graphs go on working.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from llmchat.domain.memory import CPU, cuda, cuda_index
from llmchat.engine.runners.common import Job, Running, device_map, load
from llmchat.errors import InternalError, UsageError


def run(job: Job) -> Running:
    """Raises UsageError without a GPU or RMM, OutOfMemory beyond the plan's bytes."""
    index = _only_gpu(job)
    with torch.cuda.device(index):  # RMM makes its resources for the active device
        pool = _pool(index, limit=job.plan.devices[cuda(index)].engine + _in_ram(job))
    with _loading_in_this_thread(), torch.cuda.use_mem_pool(pool, device=index):
        model = load(job, device_map(job.plan.placement))
    torch.cuda.synchronize(index)
    return Running(model, [_Keep(pool)])


def _only_gpu(job: Job) -> int:
    if not torch.cuda.is_available():
        raise UsageError(
            "No GPU for managed memory",
            "The managed strategy lets a GPU page weights from RAM, and CUDA sees no GPU here.",
            "Choose cpu or disk-offload (F4).",
        )
    indices = {cuda_index(name) for name in job.plan.placement.values()}
    index = next(iter(indices))
    if len(indices) != 1 or index is None:
        raise InternalError(
            "Plan does not fit its runner",
            "The managed runner holds all weights for one GPU.",
            "Choose another strategy (F4).",
        )
    return index


def _in_ram(job: Job) -> int:
    """Bytes of weights that the plan expects the driver to keep in RAM."""
    ram = job.plan.devices.get(CPU)
    return ram.weights if ram else 0


def _pool(index: int, limit: int) -> torch.cuda.MemPool:
    """A torch memory pool over managed memory that never grows beyond ``limit`` bytes."""
    try:
        import rmm.mr
        from rmm.allocators.torch import rmm_torch_allocator
    except ImportError as error:
        extra = f"cuda{(torch.version.cuda or '13').split('.')[0]}"
        raise UsageError(
            "RMM is not installed",
            "The managed strategy allocates through RMM, which this environment does not have.",
            f"pip install 'llmchat[{extra}]', or choose ram-offload (F4).",
            detail=str(error),
        ) from error
    managed: Any = rmm.mr.LimitingResourceAdaptor(rmm.mr.ManagedMemoryResource(), limit)
    rmm.mr.set_per_device_resource(index, managed)
    return torch.cuda.MemPool(rmm_torch_allocator.allocator())


@contextmanager
def _loading_in_this_thread() -> Iterator[None]:
    """``use_mem_pool`` counts for the calling thread alone, so transformers' loader threads must stay out."""
    name = "HF_DEACTIVATE_ASYNC_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


class _Keep:
    """Holds the pool until the model is given up; called once then."""

    def __init__(self, pool: torch.cuda.MemPool) -> None:
        self._pool: torch.cuda.MemPool | None = pool

    def __call__(self) -> None:
        self._pool = None
