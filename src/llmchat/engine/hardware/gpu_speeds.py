"""How fast each GPU reads, is reached and multiplies: ``python -m llmchat.engine.hardware.gpu_speeds cuda:0``.

A process of its own, so that no context of some 0.5 GB stays on GPUs that a plan leaves out.
"""

from __future__ import annotations

import subprocess
import sys
import time

import msgspec
import torch

from llmchat.domain.memory import CPU
from llmchat.engine import setup
from llmchat.engine.channel import claim_stdout, die_with_parent
from llmchat.engine.hardware.timing import layer_overhead, matmul, rate, waiting
from llmchat.engine.task import Task

READ_BYTES, LINK_BYTES = 2**30, 2**28
"""Moved per step: far beyond any cache, and soon done."""
BLOCKS = 4
"""Tensors that are moved one after the other from ordinary RAM: of 64 MiB each, as large weights are."""
MOVE_SECONDS = 0.2
"""For one measurement of bandwidth: there are three for each GPU, and machines with eight of them."""
SIDE, SMALL_SIDE = 8192, 2048
"""Of the square matrix: large enough to keep the device busy; the small one for a GPU that is nearly full."""
TIMEOUT, POLL = 90.0, 0.05
"""Seconds: for all of it, torch's import included; between two looks at the child."""


class GpuSpeeds(msgspec.Struct, frozen=True):
    """Bytes/s and FLOP/s by device, and seconds per layer on the fastest."""

    read: dict[str, float]
    link: dict[str, float]
    pageable: dict[str, float]
    matmul: dict[str, float]
    layer_overhead: float


def in_child(devices: tuple[str, ...], task: Task) -> GpuSpeeds | None:
    """None when it failed (why is in the log) or took too long. Raises Cancelled."""
    argv = [sys.executable, "-P", "-m", __name__, *devices]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        try:
            end = time.monotonic() + TIMEOUT
            while child.poll() is None and time.monotonic() < end:
                task.check()
                time.sleep(POLL)
        finally:
            child.kill()
        assert child.stdout is not None
        answer = child.stdout.read()
    try:
        return msgspec.json.decode(answer, type=GpuSpeeds)
    except msgspec.DecodeError:
        return None


def measure(devices: tuple[str, ...]) -> GpuSpeeds:
    read = {device: _read(device) for device in devices}
    fastest = max(read, key=lambda device: read[device])
    return GpuSpeeds(
        read=read,
        link={device: _link(device) for device in devices},
        pageable={device: _pageable(device) for device in devices},
        matmul={
            device: matmul(device, half(device), SIDE if _roomy(device) else SMALL_SIDE) for device in devices
        },
        layer_overhead=layer_overhead(fastest, half(fastest)),
    )


def half(device: str) -> torch.dtype:
    """The 16-bit dtype that this device multiplies natively: on a GPU bfloat16 from Ampere on."""
    if device == CPU or torch.cuda.get_device_capability(device) >= (8, 0):
        return torch.bfloat16
    return torch.float16


def _roomy(device: str) -> bool:
    return device != CPU and torch.cuda.mem_get_info(device)[0] > READ_BYTES


def _read(device: str) -> float:
    """Bytes/s that a reduction reads from the device's memory."""
    size = READ_BYTES if _roomy(device) else READ_BYTES // 16
    data = torch.zeros(size // 4, device=device)
    return rate(lambda: [data.sum() for _ in range(8)], 8 * data.nbytes, waiting(device), MOVE_SECONDS)


def _link(device: str) -> float:
    """Bytes/s from pinned RAM to the device."""
    source = torch.zeros(LINK_BYTES, dtype=torch.uint8, pin_memory=device != CPU)
    target = torch.empty(LINK_BYTES, dtype=torch.uint8, device=device)
    return rate(lambda: target.copy_(source, non_blocking=True), LINK_BYTES, waiting(device), MOVE_SECONDS)


def _pageable(device: str) -> float:
    """Bytes/s from ordinary RAM, tensor by tensor, as accelerate fetches the weights that it has offloaded."""
    blocks = [torch.ones(LINK_BYTES // BLOCKS, dtype=torch.uint8) for _ in range(BLOCKS)]

    def move() -> None:
        for block in blocks:
            block.to(device, copy=True)

    return rate(move, LINK_BYTES, waiting(device), MOVE_SECONDS)


def main() -> None:
    die_with_parent()
    answer = claim_stdout()
    setup.prepare()
    answer.write(msgspec.json.encode(measure(tuple(sys.argv[1:]))))


if __name__ == "__main__":
    main()
