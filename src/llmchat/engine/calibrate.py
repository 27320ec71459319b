"""Calibrate: how fast this machine reads, from each place where weights can lie, and multiplies. A few seconds."""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import psutil
import torch
from torch.nn.functional import linear
from transformers import LlamaConfig, LlamaForCausalLM

from llmchat.domain.chat import Sampling
from llmchat.domain.hardware import Gpu
from llmchat.domain.memory import CPU, cuda
from llmchat.engine import forked, memory
from llmchat.engine.context import Context
from llmchat.engine.forked import Forked
from llmchat.engine.sampling import Sampler
from llmchat.engine.task import Task
from llmchat.protocol import Calibrate, Calibrated

SECONDS = 0.5
"""For one measurement, after its warm-up."""
GPU_BYTES, LINK_BYTES, RAM_BYTES, DISK_BYTES = 2**30, 2**28, 2**28, 2**29
"""Moved per step: far beyond any cache, and soon done."""
BLOCK = 8 * 2**20
"""Bytes of one read from disk."""
PRODUCT_SECONDS = 0.1
"""For one measurement of a product of matrices: two on the CPU, one on each GPU."""
ROWS = 512
"""Tokens of a prompt that are prefilled at a time."""
CPU_SIDE, GPU_SIDE = 2048, 8192
"""Of the square matrix: large enough to keep the device busy."""
LAYERS, WARM_STEPS = 8, 5
"""Of the tiny model that times launches and Python per layer."""
CHILD_TIMEOUT = 60.0


class GpuSpeeds(msgspec.Struct, frozen=True):
    """Bytes/s and FLOP/s by GPU index, and seconds per layer on the fastest."""

    read: dict[int, float]
    link: dict[int, float]
    matmul: dict[int, float]
    layer_overhead: float


def calibrate(command: Calibrate, task: Task, gpus: tuple[Gpu, ...]) -> Calibrated:
    """What cannot be measured is None. Raises Cancelled between two measurements."""
    task.progress("Measuring the GPUs")
    speeds = _gpu_speeds(tuple(gpu.index for gpu in gpus))
    task.check()
    task.progress("Measuring the RAM")
    ram, ram_16bit = ram_bandwidth(torch.float32), ram_bandwidth(torch.bfloat16)
    task.check()
    task.progress("Measuring the CPU")
    product, product_16bit = (matmul("cpu", dtype, CPU_SIDE) for dtype in (torch.float32, torch.bfloat16))
    task.check()
    task.progress("Measuring the disk")
    disk = disk_bandwidth(Path(command.disk_file)) if command.disk_file else None
    task.check()
    task.progress("Measuring a layer")
    dtype = torch.bfloat16 if product_16bit > product else torch.float32
    overhead = speeds.layer_overhead if speeds else layer_overhead(CPU, dtype)
    return Calibrated(
        id=command.id,
        gpus=tuple(_with(gpu, speeds) for gpu in gpus),
        ram_bandwidth=ram,
        disk_bandwidth=disk,
        layer_overhead=overhead,
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
        read_bandwidth=speeds.read.get(gpu.index),
        link_bandwidth=speeds.link.get(gpu.index),
        matmul=speeds.matmul.get(gpu.index),
    )


def _gpu_speeds(indices: tuple[int, ...]) -> GpuSpeeds | None:
    """From a child where that is possible, so that no context stays on GPUs the plan will not use."""
    if not indices:
        return None

    def measure() -> GpuSpeeds:
        torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
        read = {index: gpu_bandwidth(index) for index in indices}
        fastest = max(read, key=lambda index: read[index])
        link = {index: link_bandwidth(index) for index in indices}
        products = {index: gpu_matmul(index) for index in indices}
        return GpuSpeeds(
            read=read, link=link, matmul=products, layer_overhead=layer_overhead(cuda(fastest), half(fastest))
        )

    if forked.possible() and not memory.cuda_in_use():
        return Forked(measure, GpuSpeeds).result(CHILD_TIMEOUT)
    threads = torch.get_num_threads()
    speeds = measure()
    torch.cuda.empty_cache()
    torch.set_num_threads(threads)
    return speeds


def _rate(step: Callable[[], object], size: int, wait: Callable[[], object], seconds: float = SECONDS) -> float:
    """Bytes/s of ``step``, which moves ``size`` bytes: the best of steps repeated for ``seconds`` after a warm-up,
    for what a busy machine adds is not the machine's."""
    step()
    wait()
    best, end = float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:
        started = time.perf_counter()
        step()
        wait()
        best = min(best, time.perf_counter() - started)
    return size / best


def gpu_bandwidth(index: int) -> float:
    """Bytes/s that a reduction reads from this GPU's memory."""
    free = torch.cuda.mem_get_info(index)[0]
    data = torch.zeros(min(GPU_BYTES, free // 4) // 4, device=cuda(index))
    return _rate(lambda: [data.sum() for _ in range(8)], 8 * data.nbytes, lambda: torch.cuda.synchronize(index))


def half(index: int) -> torch.dtype:
    """The 16-bit dtype that this GPU multiplies natively: bfloat16 from Ampere on."""
    return torch.bfloat16 if torch.cuda.get_device_capability(index) >= (8, 0) else torch.float16


def gpu_matmul(index: int) -> float:
    """FLOP/s in 16 bit."""
    roomy = torch.cuda.mem_get_info(index)[0] > GPU_BYTES
    return matmul(cuda(index), half(index), GPU_SIDE if roomy else CPU_SIDE)


def link_bandwidth(index: int) -> float:
    """Bytes/s from pinned RAM to this GPU."""
    source = torch.zeros(LINK_BYTES, dtype=torch.uint8).pin_memory()
    target = torch.empty(LINK_BYTES, dtype=torch.uint8, device=cuda(index))
    return _rate(
        lambda: target.copy_(source, non_blocking=True), LINK_BYTES, lambda: torch.cuda.synchronize(index)
    )


def ram_bandwidth(dtype: torch.dtype) -> float:
    """Bytes/s of weights that all threads together read in linear layers for a single token, as decoding does.
    The layers take turns, so that none is in a cache."""
    size = min(RAM_BYTES, psutil.virtual_memory().available // 8)
    weights = [torch.ones(CPU_SIDE, CPU_SIDE, dtype=dtype)]
    weights += [weights[0].clone() for _ in range(size // weights[0].nbytes)]
    token, turn = torch.ones(1, 1, CPU_SIDE, dtype=dtype), itertools.cycle(weights)
    with torch.inference_mode():
        return _rate(lambda: linear(token, next(turn)), weights[0].nbytes, lambda: None)


def matmul(device: str, dtype: torch.dtype, side: int) -> float:
    """FLOP/s of a product of ROWS rows with a square matrix, as prefilling does."""
    weight = torch.ones(side, side, dtype=dtype, device=device)
    rows = torch.ones(ROWS, side, dtype=dtype, device=device)
    wait = (lambda: None) if device == CPU else partial(torch.cuda.synchronize, device)
    with torch.inference_mode():
        return _rate(lambda: linear(rows, weight), 2 * ROWS * side * side, wait, PRODUCT_SECONDS)


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


def layer_overhead(device: str, dtype: torch.dtype) -> float:
    """Seconds per decoder layer and token that are not memory: the median decode step, with the engine's own loop,
    of a model that is soon read, but large enough for a CPU to share its products out among the cores."""
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = LlamaForCausalLM(config).to(device, dtype).eval()
    context, sampler = Context(model, torch.device(device)), Sampler(Sampling(temperature=0.0), ())
    logits = context.feed([0])
    steps: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(steps) < WARM_STEPS or time.perf_counter() < end:
        started = time.perf_counter()
        logits = context.feed([sampler.pick(logits)])
        steps.append(time.perf_counter() - started)
    return statistics.median(steps[WARM_STEPS:] or steps) / LAYERS
