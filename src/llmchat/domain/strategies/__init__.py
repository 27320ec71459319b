"""Every way to hold a model: one file each, and one line in ALL, the simplest first."""

from llmchat.domain.placing.case import Strategy
from llmchat.domain.strategies import cpu, disk_offload, managed, multi_gpu, ram_offload, single_gpu

ALL: tuple[Strategy, ...] = (
    single_gpu.STRATEGY,
    multi_gpu.STRATEGY,
    ram_offload.STRATEGY,
    disk_offload.STRATEGY,
    managed.STRATEGY,
    cpu.STRATEGY,
)
