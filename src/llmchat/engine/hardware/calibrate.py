"""Calibrate: how fast this machine reads, from each place where weights can lie, and multiplies. A few seconds."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import msgspec
import psutil
import torch
from torch.nn.functional import linear

from llmchat.domain.hardware import Gpu
from llmchat.domain.memory import CPU, cuda
from llmchat.engine.hardware import gpu_speeds
from llmchat.engine.hardware.gpu_speeds import GpuSpeeds
from llmchat.engine.hardware.timing import SECONDS, layer_overhead, matmul, rate
from llmchat.engine.task import Task
from llmchat.protocol import Calibrate, Calibrated

RAM_BYTES, DISK_BYTES = 2**28, 2**29
"""Read: far beyond any cache, and soon done."""
BLOCK = 8 * 2**20
"""Bytes of one read from disk."""
SIDE = 2048
"""Of the square matrices: large enough to keep all cores busy."""


def calibrate(command: Calibrate, task: Task, gpus: tuple[Gpu, ...]) -> Calibrated:
    """What cannot be measured is None. Raises Cancelled between two measurements."""
    task.progress("Measuring the GPUs")
    speeds = gpu_speeds.in_child(tuple(cuda(gpu.index) for gpu in gpus), task) if gpus else None
    task.check()
    task.progress("Measuring the RAM")
    ram, ram_16bit = ram_bandwidth(torch.float32), ram_bandwidth(torch.bfloat16)
    task.check()
    task.progress("Measuring the CPU")
    product, product_16bit = (matmul(CPU, dtype, SIDE) for dtype in (torch.float32, torch.bfloat16))
    task.check()
    task.progress("Measuring the disk")
    disk = disk_bandwidth(Path(command.disk_file)) if command.disk_file else None
    task.check()
    task.progress("Measuring a layer")
    dtype = torch.bfloat16 if product_16bit > product else torch.float32
    overhead = layer_overhead(CPU, dtype)
    return Calibrated(
        id=command.id,
        gpus=tuple(_with(gpu, speeds) for gpu in gpus),
        ram_bandwidth=ram,
        disk_bandwidth=disk,
        layer_overhead=speeds.layer_overhead if speeds else None if gpus else overhead,
        cpu_layer_overhead=overhead,
        ram_bandwidth_16bit=ram_16bit,
        cpu_matmul=product,
        cpu_matmul_16bit=product_16bit,
        time=time.time(),
    )


def _with(gpu: Gpu, speeds: GpuSpeeds | None) -> Gpu:
    if speeds is None:
        return gpu
    return msgspec.structs.replace(
        gpu,
        read_bandwidth=speeds.read.get(cuda(gpu.index)),
        link_bandwidth=speeds.link.get(cuda(gpu.index)),
        pageable_bandwidth=speeds.pageable.get(cuda(gpu.index)),
        matmul=speeds.matmul.get(cuda(gpu.index)),
    )


def ram_bandwidth(dtype: torch.dtype) -> float:
    """Bytes/s of weights that all threads together read in linear layers for a single token, as decoding does.
    The layers take turns, so that none is in a cache."""
    size = min(RAM_BYTES, psutil.virtual_memory().available // 8)
    weights = [torch.ones(SIDE, SIDE, dtype=dtype)]
    weights += [weights[0].clone() for _ in range(size // weights[0].nbytes)]
    token, turn = torch.ones(1, 1, SIDE, dtype=dtype), itertools.cycle(weights)
    with torch.inference_mode():
        return rate(lambda: linear(token, next(turn)), weights[0].nbytes, lambda: None)


def disk_bandwidth(path: Path) -> float | None:
    """Bytes/s of sequential reads that do not come from the page cache; None for a file that cannot be read."""
    buffer = memoryview(bytearray(BLOCK))
    try:
        with path.open("rb", buffering=0) as file:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            started, done = time.perf_counter(), 0
            while done < DISK_BYTES and time.perf_counter() - started < 2 * SECONDS:
                if not (count := file.readinto(buffer)):
                    break
                done += count
            seconds = time.perf_counter() - started
    except OSError:
        return None
    return done / seconds if done >= BLOCK and seconds > 0 else None
