"""What the engine holds, counted: weights by their storages, the rest by the allocator and the system."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import psutil
import torch

from llmchat.domain.memory import CPU, DISK, Account, cuda
from llmchat.engine.loaded import LoadedModel
from llmchat.protocol import Held


def weights(model: Any) -> dict[str, int]:
    """Bytes of parameters, buffers, quantization state and offloaded weights by device; shared storage once."""
    sizes: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    for tensor in _weight_tensors(model):
        storage = tensor.untyped_storage()
        key = (str(tensor.device), storage.data_ptr())
        if tensor.device.type == "meta" or key in seen:
            continue
        seen.add(key)
        # A view into a memory-mapped checkpoint has a storage as large as the file: count what the tensor takes.
        size = min(storage.nbytes(), tensor.nbytes)
        sizes[device_name(tensor.device)] = sizes.get(device_name(tensor.device), 0) + size
    return sizes


def device_name(device: torch.device) -> str:
    return cuda(device.index or 0) if device.type == "cuda" else device.type


def _weight_tensors(model: Any) -> Iterator[torch.Tensor]:
    for module in model.modules():
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            yield tensor
            yield from _quantization(tensor)
        yield from _tensors_in(vars(module).get("state"))
    yield from _offloaded(model)


def _quantization(weight: torch.Tensor) -> Iterator[torch.Tensor]:
    """The scales beside a bitsandbytes weight: 4-bit's QuantState (nested for double quantization), 8-bit's SCB."""
    state = getattr(weight, "quant_state", None)
    while state is not None:
        yield from _tensors_in(state)
        state = getattr(state, "state2", None)
    scales = getattr(weight, "SCB", None)
    if isinstance(scales, torch.Tensor):
        yield scales


def _tensors_in(thing: Any) -> Iterator[torch.Tensor]:
    """Tensors that are attributes of a plain object, as bitsandbytes keeps its states."""
    if thing is not None and hasattr(thing, "__dict__"):
        yield from (value for value in vars(thing).values() if isinstance(value, torch.Tensor))


def _offloaded(model: Any) -> Iterator[torch.Tensor]:
    """Weights that accelerate's hooks keep in RAM; those they read from disk take none."""
    for module in model.modules():
        maps = getattr(getattr(module, "_hf_hook", None), "weights_map", None)
        while maps is not None and not isinstance(maps, dict):
            maps = getattr(maps, "dataset", None) if hasattr(maps, "dataset") else maps.state_dict
        if maps:
            yield from (value for value in maps.values() if isinstance(value, torch.Tensor))
            return


def held(loaded: LoadedModel | None, sizes: Mapping[str, int], kv: Mapping[str, int]) -> dict[str, Held]:
    """For the heartbeat. ``sizes`` are the weights as ``weights`` counted them after the load."""
    devices = {CPU: resident_set()}
    if torch.cuda.is_initialized():
        used = (index for index in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(index))
        devices |= {cuda(index): torch.cuda.memory_reserved(index) for index in used}
    names = set(devices) | (set(sizes) - {DISK} if loaded else set())
    return {
        name: Held(
            weights=sizes.get(name, 0), kv_cache=kv.get(name, 0), reserved=devices.get(name, sizes.get(name, 0))
        )
        for name in names
    }


def resident_set() -> int:
    """Bytes of RAM that this process holds."""
    return int(psutil.Process().memory_info().rss)


def accounts(model: Any, kv: Mapping[str, int], contexts: Mapping[int, int]) -> dict[str, Account]:
    """Measured, by kind. ``contexts``: bytes of the CUDA context by GPU, for drivers that do not tell."""
    sizes = weights(model)
    totals = {CPU: resident_set()} | _gpu_totals(contexts)
    return {
        name: Account(
            weights=sizes.get(name, 0),
            kv_cache=kv.get(name, 0),
            compute=max(0, total - sizes.get(name, 0) - kv.get(name, 0)),
        )
        for name, total in totals.items()
    }


def _gpu_totals(contexts: Mapping[int, int]) -> dict[str, int]:
    """All that this process holds on each GPU it uses: reserved by the allocator, and the context."""
    if not torch.cuda.is_initialized():
        return {}
    reserved = {index: torch.cuda.memory_reserved(index) for index in range(torch.cuda.device_count())}
    return {cuda(index): size + contexts.get(index, 0) for index, size in reserved.items() if size}


def gpu_uuid(index: int) -> str:
    """As NVML spells it: ``GPU-...``."""
    return f"GPU-{torch.cuda.get_device_properties(index).uuid}"


def nvml_used(uuids: Iterable[str]) -> dict[str, int]:
    """Bytes used on each GPU by everybody, by the driver; empty where NVML is missing or refuses."""
    import pynvml

    try:
        pynvml.nvmlInit()
        handles = {uuid: pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids}
        return {uuid: int(pynvml.nvmlDeviceGetMemoryInfo(handle).used) for uuid, handle in handles.items()}
    except pynvml.NVMLError:
        return {}


def affinity() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
