"""Whether a plan's placement is one of this model: all tensors have a place, names exist, ties stay together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan
from llmchat.engine.model import architecture
from llmchat.errors import InternalError


def check(config: Any, plan: Plan, facts: ModelFacts) -> dict[str, int]:
    """Bytes of every tensor by name. Raises InternalError for a plan that is not of this model."""
    empty = architecture.empty_model(_plain(config), getattr(torch, plan.dtype))
    tensors = {
        name: tensor.nbytes
        for name, tensor in (
            *empty.named_parameters(remove_duplicate=False),
            *empty.named_buffers(remove_duplicate=False),
        )
    }
    existing = {name for name, _ in empty.named_modules()} | set(tensors)
    strange = [name for name in plan.placement if name not in existing]
    homeless = [name for name in tensors if not device_of(name, plan.placement)]
    homeless += [module.name for module in facts.modules if not device_of(module.name, plan.placement)]
    parted = [group for group in facts.tied if len({device_of(name, plan.placement) for name in group}) > 1]
    if strange or homeless or parted:
        what = [f"{name} is not a module of the model" for name in strange[:1]]
        what += [f"{name} has no place" for name in homeless[:1]]
        what += [f"{' and '.join(group)} share a tensor but not a device" for group in parted[:1]]
        raise InternalError(
            "Plan does not fit the model",
            f"{'; '.join(what)}.",
            "Open the model again, so that it is planned anew.",
        )
    return {name: size for name, size in tensors.items() if name not in empty.all_tied_weights_keys}


def _plain(config: Any) -> Any:
    """The config without the checkpoint's own quantization, which needs no packages to be built on meta."""
    if getattr(config, "quantization_config", None) is not None:
        del config.quantization_config
    return config


def device_of(name: str, placement: Mapping[str, str]) -> str | None:
    """The device of a tensor or module: its own entry's, or that of the module it is in."""
    parts = name.split(".")
    prefixes = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((placement[prefix] for prefix in prefixes if prefix in placement), placement.get(""))
