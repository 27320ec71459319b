"""The GPUs as CUDA sees them. A look costs a context on every GPU, so it is taken from a forked child."""

from __future__ import annotations

import contextlib
import ctypes
import sys

import msgspec
import torch

from llmchat.domain.hardware import Gpu, Managed
from llmchat.engine.hardware import forked
from llmchat.engine.hardware.forked import Forked

TIMEOUT = 60.0
"""Seconds for the look; a driver that hangs must not hang the engine."""
INTEGRATED, PAGEABLE, CONCURRENT, HOST_TABLES = 18, 88, 89, 100
"""Of ``CUdevice_attribute`` in cuda.h: which kind of managed memory a GPU has."""


class Found(msgspec.Struct, frozen=True):
    gpus: tuple[Gpu, ...] = ()
    warnings: tuple[str, ...] = ()
    contexts: dict[int, int] = {}
    """Bytes that a CUDA context takes on each GPU."""


class Look:
    """Begins on creation; ``result`` waits for it. Create it before anything in this process uses CUDA."""

    def __init__(self) -> None:
        cuda = torch.version.cuda is not None
        self._child = Forked(look, Found) if cuda and forked.possible() else None

    def result(self) -> Found:
        """What the child saw; without one, nothing on a CPU build, else what this process sees itself."""
        if self._child is None:
            return look() if torch.version.cuda is not None else Found()
        failed = Found(warnings=("CUDA could not be asked for its GPUs; the engine's log says why",))
        return self._child.result(TIMEOUT) or failed


def look() -> Found:
    """Creates a context on every GPU of this process."""
    if not torch.cuda.is_available():
        return Found(warnings=_unseen())
    gpus, contexts, warnings = [], {}, []
    for index in range(torch.cuda.device_count()):
        before = _used_by_driver(index)
        free, total = torch.cuda.mem_get_info(index)
        _multiply(index)
        after = _used_by_driver(index)
        if before is not None and after is not None:
            context = after - before - torch.cuda.memory_reserved(index)
            if context > 0:
                contexts[index] = context
        gpus.append(_gpu(index, total, free, contexts.get(index)))
        warnings += _warnings(index)
    warnings += _bitsandbytes()
    return Found(gpus=tuple(gpus), warnings=tuple(warnings), contexts=contexts)


def _multiply(index: int) -> None:
    """What every model loads beside its weights: the libraries of matrix products and their first kernels."""
    with contextlib.suppress(RuntimeError):  # what is broken is told when something needs it
        square = torch.ones(64, 64, dtype=torch.float16, device=f"cuda:{index}")
        torch.matmul(square, square)
        torch.cuda.synchronize(index)


def _unseen() -> tuple[str, ...]:
    """A machine whose driver knows GPUs that CUDA does not see is worth a warning; one without GPUs is not."""
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        if count := pynvml.nvmlDeviceGetCount():
            return (
                f"the driver knows {count} GPUs, and CUDA {torch.version.cuda} of this torch sees none of them",
            )
    return ()


def _gpu(index: int, total: int, free: int, context: int | None) -> Gpu:
    """``free``: with the context of this process in it."""
    properties = torch.cuda.get_device_properties(index)
    return Gpu(
        index=index,
        name=properties.name,
        uuid=uuid(properties.name, str(properties.uuid)),
        total=total,
        free=min(free + (context or 0), total),
        capability=(properties.major, properties.minor),
        managed=managed_class(_attributes(index)),
        context=context,
    )


def uuid(name: str, bare: str) -> str:
    """As NVML writes it; a MIG instance has the profile in its name: ``NVIDIA A100-SXM4-40GB MIG 3g.20gb``."""
    return f"MIG-{bare}" if " MIG " in name else f"GPU-{bare}"


def managed_class(attributes: dict[int, int]) -> Managed:
    """From the driver's four attributes; ``none`` where they cannot be had."""
    if attributes.get(INTEGRATED):
        return "integrated"
    if not attributes.get(CONCURRENT):
        return "none"
    if attributes.get(HOST_TABLES):
        return "coherent"
    return "host-tables" if attributes.get(PAGEABLE) else "paged"


def _attributes(index: int) -> dict[int, int]:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return {}
    device, value = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), index):
        return {}
    found = {}
    for attribute in (INTEGRATED, PAGEABLE, CONCURRENT, HOST_TABLES):
        if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device) == 0:
            found[attribute] = value.value
    return found


def _used_by_driver(index: int) -> int | None:
    """Bytes in use on this GPU by NVML's count, which needs no context; None where NVML does not tell."""
    import pynvml

    properties = torch.cuda.get_device_properties(index)
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid(properties.name, str(properties.uuid)))
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    return None


def _warnings(index: int) -> list[str]:
    """Whether this torch has code for the GPU: its own architecture's, or PTX of an older one to compile."""
    major, minor = torch.cuda.get_device_capability(index)
    if covered((major, minor), torch.cuda.get_arch_list()):
        return []
    return [
        f"GPU {index} ({torch.cuda.get_device_name(index)}) has compute capability {major}.{minor}; this torch "
        f"{torch.__version__} is built for {' '.join(torch.cuda.get_arch_list())}: install another build of it"
    ]


def covered(capability: tuple[int, int], architectures: list[str]) -> bool:
    """``sm_XY`` runs on the same major version from minor Y on; ``compute_XY`` on everything from X.Y on."""
    for entry in architectures:
        kind, _, digits = entry.partition("_")
        digits = "".join(character for character in digits if character.isdigit())
        version = (int(digits[:-1]), int(digits[-1]))
        same = kind == "sm" and version[0] == capability[0] and version[1] <= capability[1]
        if same or (kind == "compute" and version <= capability):
            return True
    return False


def _bitsandbytes() -> list[str]:
    """A tiny 4-bit round trip: the wheel can import and still have no kernels for this GPU or CUDA."""
    try:
        import bitsandbytes

        packed, state = bitsandbytes.functional.quantize_4bit(torch.ones(64, 64, device="cuda:0"))
        torch.cuda.synchronize()
        bitsandbytes.functional.dequantize_4bit(packed, state)
        torch.cuda.synchronize()
    except Exception as error:
        return [f"bitsandbytes cannot run its kernels here: {error}"]
    return []
