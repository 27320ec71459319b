"""Inspect: what a model is made of, from its config alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import torch

from llmchat.domain.model import LayerCache, ModelFacts, Module
from llmchat.engine.model import architecture, checkpoint, kvcache, units
from llmchat.engine.model.measure import Measure
from llmchat.errors import ModelError

EXPANDED = ("mxfp4",)
"""Quantizations that transformers turns into 16 bit unless the machine has special kernels: counted as that."""


def inspect(folder: Path, model_id: str, revision: str = "") -> ModelFacts:
    """Raises ModelError for what cannot be built. The weights need not be there; a few MB of config suffice."""
    config = architecture.read_config(folder)
    dtype = checkpoint.published_dtype(folder, config)
    method = architecture.quantization(config)
    if method is not None:
        del config.quantization_config
    model = architecture.empty_model(config, dtype)
    text = architecture.text_config(config)
    unknown: list[str] = []
    caches = _caches(model, unknown)
    layers = units.decoder_layers(model, text.num_hidden_layers)
    if not layers:
        raise ModelError(
            "Architecture not supported",
            f"{type(model).__name__} has no list of {text.num_hidden_layers} decoder layers to place.",
            "Choose another model.",
        )
    modules = Measure(model, dtype, text).modules(
        units.split(model, layers), dict(zip(layers, caches, strict=False))
    )
    if method is not None:
        modules = _stored(folder, modules, method, dtype, unknown)
    return ModelFacts(
        id=model_id,
        revision=revision,
        architecture=type(model).__name__,
        dtype=str(dtype).removeprefix("torch."),
        parameters=sum({id(p): p.numel() for p in model.parameters()}.values()),
        hidden_size=text.hidden_size,
        vocab_size=text.vocab_size,
        max_context=architecture.max_context(config),
        modules=modules,
        tied=_tied(model, modules),
        has_chat_template=architecture.has_chat_template(folder),
        prequantized=method,
        unknown=tuple(unknown),
    )


def _stored(
    folder: Path, modules: tuple[Module, ...], method: str, dtype: torch.dtype, unknown: list[str]
) -> tuple[Module, ...]:
    """Modules of a quantized checkpoint at the bytes they have on disk, if memory holds them as they are there."""
    try:
        entries = checkpoint.check(folder)
    except ModelError:
        entries = {}
    if method in EXPANDED or not entries:
        unknown.append(f"{method} weights are counted as {str(dtype).removeprefix('torch.')}: they may take less")
        return modules
    sizes: Counter[str] = Counter()
    for name, entry in entries.items():
        start, end = entry["data_offsets"]
        sizes[_owner(name, modules)] += end - start
    return tuple(_shrunk(module, sizes[module.name]) for module in modules)


def _shrunk(module: Module, size: int) -> Module:
    """``module`` at ``size`` bytes, what is active of it by the same share; one without tensors on disk stays."""
    if not size or not module.bytes:
        return module
    active = module.active_bytes * size // module.bytes
    largest = min(module.largest_tensor, size)
    return msgspec.structs.replace(
        module, bytes=size, active_bytes=active, largest_tensor=largest, linear_params=0, linear_bytes=0
    )


def _caches(model: Any, unknown: list[str]) -> tuple[LayerCache, ...]:
    """By a run on meta; where a model cannot run there, by heads times head size of its config."""
    try:
        return kvcache.layer_caches(model)
    except Exception as error:
        unknown.append(f"the KV cache is estimated from the config: {type(error).__name__}")
        text = architecture.text_config(model.config)
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        return tuple(LayerCache(per_token=2 * heads * size * 2) for _ in range(text.num_hidden_layers))


def _tied(model: Any, modules: tuple[Module, ...]) -> tuple[tuple[str, ...], ...]:
    """Groups of unit names that share a tensor."""
    groups: dict[str, set[str]] = {}
    for target, source in model.all_tied_weights_keys.items():
        names = {_owner(name, modules) for name in (target, source)}
        groups.setdefault(source, set()).update(names)
    order = [module.name for module in modules]
    return tuple(tuple(sorted(group, key=order.index)) for group in groups.values() if len(group) > 1)


def _owner(tensor: str, modules: tuple[Module, ...]) -> str:
    """The unit that a tensor is in; empty for one that the model does not have."""
    return next((m.name for m in modules if tensor == m.name or tensor.startswith(m.name + ".")), "")
