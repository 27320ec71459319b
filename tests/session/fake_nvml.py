"""NVML of a machine on paper, for the tests of probe and sampler."""

# ruff: noqa: N802 (named as in pynvml)

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    pass


class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801
    """Named as in pynvml."""


@dataclass
class FakeGpu:
    uuid: str
    total: int
    used: int = 0
    reserved: int = 0
    name: str = "Fake GPU"
    processes: dict[int, int | None] | None = field(default_factory=dict)
    """None: the driver refuses."""
    refuses: bool = False
    """Every question about memory, utilization and the like."""
    instances: list[FakeGpu] = field(default_factory=list)
    """MIG."""
    addressing: int = 0
    """0 none, 1 HMM, 2 ATS."""
    node: int | None = None
    """NUMA node; None: the driver refuses."""


class FakeNvml:
    NVMLError = NVMLError
    NVML_TEMPERATURE_GPU = 0
    NVML_DEVICE_ADDRESSING_MODE_HMM = 1
    NVML_DEVICE_ADDRESSING_MODE_ATS = 2
    nvmlMemory_v2 = 2  # noqa: N815

    def __init__(self, *gpus: FakeGpu, broken: Exception | None = None) -> None:
        self.gpus = gpus
        self.broken = broken

    def nvmlInit(self) -> None:
        if self.broken:
            raise self.broken

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
        return gpu.uuid

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> bytes:
        return gpu.name.encode()

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> list[int]:
        return [int(bool(gpu.instances)), 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: FakeGpu) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: FakeGpu, index: int) -> FakeGpu:
        if index >= len(gpu.instances):
            raise NVMLError("not found")
        return gpu.instances[index]

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu, version: int = 1) -> Any:
        self._ask(gpu)
        free = gpu.total - gpu.used - gpu.reserved
        return SimpleNamespace(total=gpu.total, free=free, used=gpu.total - free, reserved=gpu.reserved)

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[Any]:
        if gpu.processes is None:
            raise NVMLError("no permission")
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in gpu.processes.items()]

    def nvmlDeviceGetGraphicsRunningProcesses(self, gpu: FakeGpu) -> list[Any]:
        return []

    def nvmlDeviceGetCudaComputeCapability(self, gpu: FakeGpu) -> tuple[int, int]:
        self._ask(gpu)
        return (9, 0)

    def nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu) -> Any:
        self._ask(gpu)
        return SimpleNamespace(gpu=37)

    def nvmlDeviceGetTemperature(self, gpu: FakeGpu, sensor: int) -> int:
        self._ask(gpu)
        return 51

    def nvmlDeviceGetPowerUsage(self, gpu: FakeGpu) -> int:
        self._ask(gpu)
        return 123_000

    def nvmlDeviceGetAddressingMode(self, gpu: FakeGpu) -> int:
        self._ask(gpu)
        return gpu.addressing

    def nvmlDeviceGetNumaNodeId(self, gpu: FakeGpu) -> int:
        if gpu.node is None:
            raise NVMLError("not supported")
        return gpu.node

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 13000

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.65"

    def _ask(self, gpu: FakeGpu) -> None:
        if gpu.refuses:
            raise NVMLError("not supported")
