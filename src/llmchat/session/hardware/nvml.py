"""The GPUs as the driver sees them (NVML), in the order and choice in which CUDA numbers them.

NVML may be missing, or refuse single questions (MIG, Jetson, GB10, WSL): an answer is then None, never an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from llmchat.domain.hardware import Managed

__all__ = ["Device", "GpuMemory", "Nvml", "visible"]

T = TypeVar("T")

COHERENT = re.compile(r"\b(GH200|GB200|GB300)\b")
INTEGRATED = re.compile(r"\b(GB10|Orin|Thor|Xavier|Tegra)\b", re.I)
"""Names of GPUs that share an address space with the CPU over NVLink-C2C, and of those that share its RAM."""


class GpuMemory(msgspec.Struct, frozen=True, kw_only=True):
    total: int
    free: int
    used: int
    """By processes."""
    reserved: int = 0
    """By the driver and the firmware; total is the sum of the three."""


@dataclass(frozen=True)
class Device:
    index: int
    """CUDA's, with ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` and the present ``CUDA_VISIBLE_DEVICES``."""
    uuid: str
    name: str
    handle: Any


class Nvml:
    """``problem`` says why there are no answers; it is empty where there is simply no NVIDIA driver."""

    def __init__(self, environment: Mapping[str, str] = os.environ, library: Any = None) -> None:
        self.problem = ""
        self.devices: tuple[Device, ...] = ()
        self.everything: tuple[Device, ...] = ()
        """With those that ``CUDA_VISIBLE_DEVICES`` hides; their indices count through all of them."""
        self._nvml = library
        self._errors: tuple[type[Exception], ...] = (OSError, ImportError)
        try:
            if library is None:
                import pynvml

                self._nvml = pynvml
            self._errors = (self._nvml.NVMLError, UnicodeDecodeError)
            self._nvml.nvmlInit()
            found = self.everything = tuple(self._all())
        except Exception as error:
            # Whatever a driver or its binding does here, llmchat runs without it.
            absent = type(error).__name__ in ("NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded")
            self.problem = "" if absent else f"The NVIDIA driver does not answer: {error}."
            return
        chosen = visible(found, environment.get("CUDA_VISIBLE_DEVICES"))
        self.devices = tuple(Device(i, d.uuid, d.name, d.handle) for i, d in enumerate(chosen))

    def memory(self, device: Device) -> GpuMemory | None:
        """None where the driver does not tell, as on machines whose GPU uses the CPU's memory."""
        nvml = self._nvml
        plain = self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(device.handle))
        if plain is None or not plain.total:
            return None
        detailed = self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(device.handle, version=nvml.nvmlMemory_v2))
        total, free = int(plain.total), int(plain.free)
        reserved = min(int(detailed.reserved), total - free) if detailed is not None else 0
        return GpuMemory(total=total, free=free, used=total - free - reserved, reserved=reserved)

    def processes(self, device: Device) -> dict[int, int] | None:
        """Bytes by process id, as far as this process may see others; None where the driver does not tell."""
        found: dict[int, int] = {}
        for question in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
            answer = self._ask(lambda name=question: getattr(self._nvml, name)(device.handle))  # type: ignore[misc]
            if answer is None:
                return None
            for process in answer:
                if process.usedGpuMemory is None:
                    return None
                found[int(process.pid)] = max(found.get(int(process.pid), 0), int(process.usedGpuMemory))
        return found

    def capability(self, device: Device) -> tuple[int, int] | None:
        found = self._ask(lambda: self._nvml.nvmlDeviceGetCudaComputeCapability(device.handle))
        return (int(found[0]), int(found[1])) if found else None

    def utilization(self, device: Device) -> float | None:
        """0..1"""
        found = self._ask(lambda: self._nvml.nvmlDeviceGetUtilizationRates(device.handle).gpu)
        return None if found is None else int(found) / 100

    def temperature(self, device: Device) -> float | None:
        """Degrees Celsius."""
        nvml = self._nvml
        found = self._ask(lambda: nvml.nvmlDeviceGetTemperature(device.handle, nvml.NVML_TEMPERATURE_GPU))
        return None if found is None else float(found)

    def power(self, device: Device) -> float | None:
        """Watts."""
        found = self._ask(lambda: self._nvml.nvmlDeviceGetPowerUsage(device.handle))
        return None if found is None else int(found) / 1000

    def driver(self) -> str:
        if not self.devices:
            return ""
        return str(_text(self._ask(lambda: self._nvml.nvmlSystemGetDriverVersion()) or ""))

    def driver_cuda(self) -> str:
        """The newest CUDA version that the driver supports, ``13.0``; empty where it does not tell."""
        if not self.devices:
            return ""
        found = self._ask(lambda: int(self._nvml.nvmlSystemGetCudaDriverVersion_v2()))
        return f"{found // 1000}.{found % 1000 // 10}" if found else ""

    def managed(self, device: Device, ram_total: int) -> Managed:
        """How the GPU reaches host memory, as far as the driver tells; the engine asks CUDA, which knows better.

        A whole GPU without memory of its own, or with exactly ``ram_total`` bytes of it, shares the RAM.
        """
        memory = self.memory(device)
        silent = memory is None and not device.uuid.startswith("MIG-")
        if INTEGRATED.search(device.name) or silent or (memory is not None and memory.total == ram_total):
            return "integrated"
        if self.coherent(device):
            return "coherent"
        return "host-tables" if self._addressing(device) == "HMM" else "paged"

    def coherent(self, device: Device) -> bool:
        """Whether CPU and GPU have one address space and each its own memory (GH200, GB200)."""
        own = INTEGRATED.search(device.name) is None and self.memory(device) is not None
        return bool(COHERENT.search(device.name)) or (own and self._addressing(device) == "ATS")

    def numa_node(self, device: Device) -> int | None:
        """The NUMA node that the GPU's memory is; None where it is none, or the driver does not tell."""
        return self._ask(lambda: int(self._nvml.nvmlDeviceGetNumaNodeId(device.handle)))

    def _addressing(self, device: Device) -> str:
        """``ATS``, ``HMM``, or empty: for neither, and where the driver does not tell."""
        nvml = self._nvml
        mode = self._ask(lambda: int(nvml.nvmlDeviceGetAddressingMode(device.handle)))
        names = {nvml.NVML_DEVICE_ADDRESSING_MODE_ATS: "ATS", nvml.NVML_DEVICE_ADDRESSING_MODE_HMM: "HMM"}
        return "" if mode is None else names.get(mode, "")

    def _all(self) -> Iterator[Device]:
        """NVML counts in the order of PCI bus ids. A GPU in MIG mode is there as its instances."""
        for number in range(self._nvml.nvmlDeviceGetCount()):
            handle = self._ask(lambda n=number: self._nvml.nvmlDeviceGetHandleByIndex(n))  # type: ignore[misc]
            if handle is None:
                continue
            instances = list(self._instances(handle))
            yield from (self._device(number, part) for part in instances or [handle])

    def _instances(self, handle: Any) -> Iterator[Any]:
        mode = self._ask(lambda: self._nvml.nvmlDeviceGetMigMode(handle)[0])
        if not mode:
            return
        for number in range(self._ask(lambda: self._nvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0):
            part = self._ask(lambda n=number: self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, n))  # type: ignore[misc]
            if part is not None:
                yield part

    def _device(self, index: int, handle: Any) -> Device:
        uuid = _text(self._ask(lambda: self._nvml.nvmlDeviceGetUUID(handle)) or "")
        name = _text(self._ask(lambda: self._nvml.nvmlDeviceGetName(handle)) or "NVIDIA GPU")
        return Device(index, uuid, name, handle)

    def _ask(self, question: Callable[[], T]) -> T | None:
        try:
            return question()
        except self._errors:
            return None


def visible(devices: Sequence[Device], chosen: str | None) -> tuple[Device, ...]:
    """Those that CUDA sees under this value of ``CUDA_VISIBLE_DEVICES`` (None: not set), in its order.

    As CUDA does it: the list ends at the first entry that names no GPU; a UUID may be cut short where it stays
    unique; and of MIG instances only one is seen, the first unless another is named.
    """
    physical = list(dict.fromkeys(device.index for device in devices))
    if chosen is None:
        whole = tuple(device for device in devices if not device.uuid.startswith("MIG-"))
        return whole or tuple(devices[:1])
    result: list[Device] = []
    for entry in (part.strip() for part in chosen.split(",")):
        if entry.isdecimal():
            number = int(entry)
            matches = [d for d in devices if number < len(physical) and d.index == physical[number]][:1]
        else:
            matches = [d for d in devices if entry.startswith(("GPU-", "MIG-")) and d.uuid.startswith(entry)]
        if len(matches) != 1 or matches[0] in result:
            break
        result += matches
    return tuple(result)


def _text(value: Any) -> str:
    """Older bindings answer in bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
