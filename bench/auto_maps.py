"""The device maps of transformers and accelerate for a machine that is not here.

Both ask the machine for its free memory; here they are told. What they do with it is their own code.
"""

from __future__ import annotations

import logging
from typing import Any
from unittest.mock import patch

from accelerate.utils.modeling import infer_auto_device_map
from placement_rules import CUDA_CONTEXT, Placement

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import CPU, cuda

Budget = dict[int | str, int]

logging.getLogger("accelerate.utils.modeling").setLevel(logging.ERROR)  # "Device 0 is not available": as it is


def found_memory(machine: HardwareProfile) -> Budget:
    """What ``torch.cuda.mem_get_info`` says on each GPU once a first tensor has made its CUDA context, and the
    available RAM; a GPU without room for a context is passed over."""
    free = {gpu.index: (gpu.free or 0) - CUDA_CONTEXT for gpu in machine.gpus}
    budget: Budget = {index: count for index, count in free.items() if count > 0}
    return budget | {CPU: machine.ram_available}


def transformers_auto(model: Any, machine: HardwareProfile) -> Placement:
    """What ``from_pretrained(..., device_map="auto")`` computes: balanced, 90 % of a single GPU and of the RAM."""
    from transformers.integrations import accelerate as integration

    def max_memory(given: Budget | None = None) -> Budget:
        return found_memory(machine) if given is None else dict(given)

    with patch.object(integration, "accelerate_max_memory", max_memory):
        return _named(integration._get_device_map(model, "auto", None, None))


def accelerate_auto(model: Any, machine: HardwareProfile) -> Placement:
    """``infer_auto_device_map`` with all memory that is found, as accelerate's guide shows it."""
    found = infer_auto_device_map(
        model,
        max_memory=found_memory(machine),
        no_split_module_classes=model._no_split_modules,
        dtype=model.dtype,
    )
    return _named(found)


def _named(device_map: dict[str, Any]) -> Placement:
    return {name: cuda(device) if isinstance(device, int) else str(device) for name, device in device_map.items()}
