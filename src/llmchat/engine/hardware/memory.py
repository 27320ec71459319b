"""What the engine holds, counted: weights by their storages, the rest by the allocator and the system."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import torch

from llmchat.domain.memory import CPU, Account, cuda
from llmchat.protocol import Held

STATUS, MAPS = Path("/proc/self/status"), Path("/proc/self/maps")
PRIVATE = ("RssAnon:", "RssShmem:")
"""Lines of STATUS that count what the system cannot take back: the heap, and shared memory. Pinned memory of CUDA
is in RssShmem (torch 2.9, driver 570: 4 GiB pinned made it grow by 4 GiB, and nothing else). Left out is RssFile:
pages of mapped files, such as libraries and a checkpoint that was read, which are dropped when memory is short."""


def weights(model: Any) -> dict[str, int]:
    """Bytes of parameters, buffers, quantization state and offloaded weights by device; shared storage once."""
    sizes: dict[str, int] = {}
    for tensor in _distinct(model):
        name = device_name(tensor.device)
        sizes[name] = sizes.get(name, 0) + _size(tensor)
    return sizes


def mapped(model: Any) -> int:
    """Bytes of the weights that are views into mapped files: in RAM as long as the model is used, and in no other
    count of RAM. 0 where the system does not tell."""
    files = _mapped_files()
    starts = [begin for begin, _ in files]

    def is_mapped(address: int) -> bool:
        index = bisect.bisect_right(starts, address) - 1
        return index >= 0 and address < files[index][1]

    return sum(_size(t) for t in _distinct(model) if t.device.type == "cpu" and is_mapped(t.data_ptr()))


def _mapped_files() -> list[tuple[int, int]]:
    """Begin and end of every part of the address space that maps a file, in order."""
    found = []
    try:
        lines = MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        # 7f5cf94b6000-7f5cf9501000 rw-p 00000000 fe:00 2155165    /path
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5].startswith("/") and not fields[5].startswith(("/dev/", "/memfd:")):
            begin, _, end = fields[0].partition("-")
            found.append((int(begin, 16), int(end, 16)))
    return sorted(found)


def _distinct(model: Any) -> Iterator[torch.Tensor]:
    """Weights that take memory, one for each storage."""
    seen: set[tuple[str, int]] = set()
    for tensor in _weight_tensors(model):
        key = (str(tensor.device), tensor.untyped_storage().data_ptr())
        if tensor.device.type != "meta" and key not in seen:
            seen.add(key)
            yield tensor


def _size(tensor: torch.Tensor) -> int:
    """A view into a memory-mapped checkpoint can have a storage as large as the file: what the tensor takes."""
    return min(tensor.untyped_storage().nbytes(), tensor.nbytes)


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


def held(
    sizes: Mapping[str, int], kv: Mapping[str, int], in_files: int = 0, contexts: Mapping[int, int] | None = None
) -> dict[str, Held]:
    """For the heartbeat. ``sizes`` and ``in_files``: as ``weights`` and ``mapped`` counted after the load;
    ``contexts``: as for ``accounts``."""
    own = {cuda(index): size for index, size in (contexts or {}).items()}
    totals = {CPU: private() + in_files}
    if cuda_in_use():
        totals |= {cuda(index): torch.cuda.memory_reserved(index) for index in range(torch.cuda.device_count())}
    return {
        name: Held(
            weights=sizes.get(name, 0),
            kv_cache=kv.get(name, 0),
            reserved=total,
            mapped=in_files if name == CPU else 0,
            context=own.get(name, 0),
        )
        for name, total in totals.items()
        if total
    }


def private() -> int:
    """Bytes of RAM that this process holds and the system cannot take back (see PRIVATE); elsewhere than on Linux
    what is this process's alone."""
    try:
        lines = STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return _elsewhere()
    sizes = [int(line.split()[1]) * 1024 for line in lines if line.startswith(PRIVATE)]
    return sum(sizes) if sizes else _elsewhere()


def _elsewhere() -> int:
    process = psutil.Process()
    try:
        return int(process.memory_full_info().uss)
    except psutil.Error:
        return int(process.memory_info().rss)


def accounts(model: Any, kv: Mapping[str, int], contexts: Mapping[int, int]) -> dict[str, Account]:
    """Measured, by kind. ``contexts``: bytes of the CUDA context by GPU, for drivers that do not tell."""
    sizes = weights(model)
    totals = {CPU: private() + mapped(model)} | _gpu_totals(contexts)
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
