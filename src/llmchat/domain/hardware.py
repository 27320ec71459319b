"""What a machine has. A plain value: a machine is a JSON file in a test."""

from __future__ import annotations

from typing import Literal

import msgspec

from llmchat.domain.memory import CPU, Accounts, cuda

Managed = Literal["none", "paged", "host-tables", "coherent", "integrated"]
"""How a GPU reaches host memory: not usefully (Windows, WSL) / pages migrate on a fault (PCIe) / the same with
HMM / one coherent address space over NVLink-C2C (GH200, GB200) / CPU and GPU share one pool (GB10, Jetson)."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    index: int
    """CUDA index with ``CUDA_DEVICE_ORDER=PCI_BUS_ID``."""
    name: str
    uuid: str = ""
    total: int
    """Bytes."""
    free: int | None
    """Bytes free now; None where the driver does not tell."""
    capability: tuple[int, int] | None = None
    managed: Managed = "paged"
    read_bandwidth: float | None = None
    """Bytes/s that a kernel reads from this GPU's memory, measured; None before calibration."""
    link_bandwidth: float | None = None
    """Bytes/s from pinned RAM to this GPU, measured."""
    pageable_bandwidth: float | None = None
    """Bytes/s from ordinary RAM to this GPU, measured: what accelerate's offloading reaches."""
    matmul: float | None = None
    """FLOP/s of a product of 512 rows with a 16-bit matrix, measured."""
    context: int | None = None
    """Bytes that a CUDA context with its loaded kernels takes there; None before the engine has looked."""


class Software(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the engine's environment can do. Found by the parent from package metadata, without importing."""

    torch: str = ""
    torch_cuda: str | None = None
    """CUDA version torch was built for; None for a CPU build."""
    transformers: str = ""
    accelerate: str = ""
    bitsandbytes: str | None = None
    rmm: str | None = None
    packages: dict[str, str] = {}
    """Packages that quantized checkpoints need (``kernels``, ``triton``, ``gptqmodel``, ...): name to version of
    those that are installed."""


DiskKind = Literal["nvme", "ssd", "hdd", "network", "memory", ""]
"""What the models lie on; empty where that cannot be told."""


class HardwareProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All the planner knows about a machine."""

    name: str = "this machine"
    gpus: tuple[Gpu, ...] = ()
    ram_total: int
    ram_available: int
    """Bytes that a new process can take: the smaller of MemAvailable and what every cgroup above leaves."""
    ram_limit: str = ""
    """What limits the RAM where it is not the machine: ``cgroup``."""
    swap_total: int = 0
    """Bytes of swap: never counted as RAM, for a model that is swapped answers no more."""
    pinned_limit: int | None = None
    """Bytes of RAM that can be pinned for copies to a GPU; None where nothing but the RAM limits it."""
    disk_free: int | None = None
    """Bytes free where the hub cache lies."""
    disk_kind: DiskKind = ""
    cpu: str = ""
    cores: int = 1
    """Hardware threads this process may run on (affinity and cgroup quota respected)."""
    physical_cores: int | None = None
    """Of the machine; None where the system does not tell."""
    ram_bandwidth: float | None = None
    """Bytes/s that all cores together read in a float32 matrix-vector product, measured."""
    ram_bandwidth_16bit: float | None = None
    """The same in bfloat16, as decoding does it: less on a CPU without instructions for it."""
    cpu_matmul: float | None = None
    """FLOP/s of all cores together in a product of 512 rows with a float32 matrix, measured."""
    cpu_matmul_16bit: float | None = None
    """The same in bfloat16: many times faster on a CPU with instructions for it, slower on one without."""
    disk_bandwidth: float | None = None
    layer_overhead: float | None = None
    """Seconds of launches and Python per decoder layer and token, measured on the fastest device."""
    cpu_layer_overhead: float | None = None
    """The same when the CPU runs the model; None: as ``layer_overhead``."""
    software: Software = Software()
    driver: str = ""
    driver_cuda: str = ""
    """The newest CUDA version that the driver supports: ``13.0``."""
    notes: tuple[str, ...] = ()
    """What could not be found out about the machine, in sentences."""

    def returning(self, held: Accounts) -> HardwareProfile:
        """This machine once the engine that holds ``held`` has ended: its bytes are free again."""
        gpus = tuple(
            msgspec.structs.replace(gpu, free=min(gpu.total, gpu.free + held[cuda(gpu.index)].engine))
            if gpu.free is not None and cuda(gpu.index) in held
            else gpu
            for gpu in self.gpus
        )
        ram = held[CPU].engine if CPU in held else 0
        return msgspec.structs.replace(
            self, gpus=gpus, ram_available=min(self.ram_total, self.ram_available + ram)
        )
