"""A model as units of placement: each decoder layer whole, and what lies around the layers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from llmchat.domain.model import ModuleKind

ORDER: dict[ModuleKind, int] = {"embedding": 0, "other": 1, "layer": 2, "norm": 3, "head": 4}
"""The order in which a forward pass runs the kinds."""


@dataclass
class Unit:
    """A subtree of modules that is placed as one, or (rarely) one tensor that hangs directly on a split module."""

    name: str
    kind: ModuleKind
    module: nn.Module
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    """Full name to parameter or buffer; a tied tensor is in every unit that holds it."""
    idle: bool = False
    """Not run for text: a vision tower, the projector behind it."""


def decoder_layers(model: Any, count: int) -> dict[str, nn.Module]:
    """Full name to module of the ``count`` layers of the text decoder, in order; empty without such a list."""
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
    inside = {id(module) for module in decoder.modules()}
    lists = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == count and id(module) in inside
    ]
    classes = set(model._no_split_modules or ())
    known = [item for item in lists if type(item[1][0]).__name__ in classes]
    for name, modules in known or lists:
        return {f"{name}.{index}": layer for index, layer in enumerate(modules)}
    return {}


def split(model: Any, layers: dict[str, nn.Module]) -> list[Unit]:
    """Every tensor of the model in a unit, units in the order of a forward pass."""
    found = list(_split(model, "", model, layers))
    if model.config.get_text_config(decoder=True) is not model.config:
        text = {id(module) for module in model.get_decoder().modules()}
        for unit in found:
            unit.idle = unit.kind in ("other", "norm") and id(unit.module) not in text
    return sorted(found, key=lambda unit: ORDER[unit.kind])


def _split(model: Any, prefix: str, module: nn.Module, layers: dict[str, nn.Module]) -> Iterator[Unit]:
    if prefix in layers or (prefix and not any(name.startswith(prefix + ".") for name in layers)):
        tensors = _tensors(prefix, module)
        if tensors:
            yield Unit(prefix, "layer" if prefix in layers else _kind(model, module), module, tensors)
        return
    for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
        full = f"{prefix}.{name}" if prefix else name
        yield Unit(full, "other", module, {full: tensor})
    for name, child in module.named_children():
        yield from _split(model, f"{prefix}.{name}" if prefix else name, child, layers)


def _tensors(prefix: str, module: nn.Module) -> dict[str, torch.Tensor]:
    named = (
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    )
    return {f"{prefix}.{name}": tensor for name, tensor in named}


def _kind(model: Any, module: nn.Module) -> ModuleKind:
    if any(part is model.get_input_embeddings() for part in module.modules()):
        return "embedding"
    if any(part is model.get_output_embeddings() for part in module.modules()):
        return "head"
    name = type(module).__name__.lower()
    return "norm" if "norm" in name else "other"


def owner(tensor: str, names: Collection[str]) -> str:
    """The unit that a tensor is in: it or a module above it; empty for one that the model does not have."""
    parts = tensor.split(".")
    prefixes = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in names), "")
