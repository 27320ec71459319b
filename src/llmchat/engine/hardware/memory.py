"""What the engine holds, counted: weights by their storages, the rest by the allocator and the system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import psutil
import torch

from llmchat.domain.memory import CPU, Account, cuda
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


def cuda_in_use() -> bool:
    """Whether this process has used a GPU; asking for more would create a context on one."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


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
    """The scales beside a bitsandbytes weight: 4-bit's QuantState (nested when quantized twice), 8-bit's SCB."""
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


def held(sizes: Mapping[str, int], kv: Mapping[str, int]) -> dict[str, Held]:
    """For the heartbeat. ``sizes`` are the weights as ``weights`` counted them after the load."""
    totals = {CPU: resident_set()}
    if cuda_in_use():
        totals |= {cuda(index): torch.cuda.memory_reserved(index) for index in range(torch.cuda.device_count())}
    return {
        name: Held(weights=sizes.get(name, 0), kv_cache=kv.get(name, 0), reserved=total)
        for name, total in totals.items()
        if total
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
    if not cuda_in_use():
        return {}
    reserved = {index: torch.cuda.memory_reserved(index) for index in range(torch.cuda.device_count())}
    return {cuda(index): size + contexts.get(index, 0) for index, size in reserved.items() if size}
