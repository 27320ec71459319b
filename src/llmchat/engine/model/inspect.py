"""Inspect: what a model is made of, from its config alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from llmchat.domain.model import LayerCache, ModelFacts, Module
from llmchat.engine.model import architecture, checkpoint, formats, kvcache, stored, units
from llmchat.engine.model.measure import Measure
from llmchat.errors import ModelError

CONFIG_ONLY = (
    "the exact bytes of the weights: they follow from the config, no file was looked at",
    "whether it has a chat template",
)
"""What a config without anything beside it does not tell."""


def inspect(folder: Path, model_id: str, revision: str = "") -> ModelFacts:
    """Raises ModelError for what cannot be built. The weights need not be there; a few MB of config suffice."""
    config = architecture.read_config(folder)
    unknown: list[str] = []
    entries = checkpoint.headers(folder)
    quantization = formats.settings(config)
    dtype = _dtype(config, entries, quantization, unknown)
    _forget_quantization(config)
    model = architecture.empty_model(config, dtype)
    text = architecture.text_config(config)
    caches = _caches(model, unknown)
    layers = units.decoder_layers(model, text.num_hidden_layers)
    if not layers:
        raise ModelError(
            "Architecture not supported",
            f"{type(model).__name__} has no list of {text.num_hidden_layers} decoder layers to place.",
            "Choose another model.",
        )
    form = formats.Format(model, quantization) if quantization is not None else None
    modules = Measure(model, dtype, text, form).modules(
        units.split(model, layers), dict(zip(layers, caches, strict=False))
    )
    if form is not None and quantization is not None:
        modules = stored.from_headers(model, modules, entries) if entries else modules
        unknown += _sizes_unknown(formats.method(quantization), modules, dtype, bool(entries))
    if not entries and not _described(folder):
        unknown += CONFIG_ONLY if form is None else CONFIG_ONLY[1:]
    attention = architecture.attention_size(text)
    return ModelFacts(
        id=model_id,
        revision=revision,
        architecture=type(model).__name__,
        dtype=_name(dtype),
        parameters=sum({id(p): p.numel() for p in model.parameters()}.values()),
        hidden_size=text.hidden_size,
        vocab_size=text.vocab_size,
        attention_bytes=None if attention is None else attention * dtype.itemsize,
        max_context=architecture.max_context(config),
        modules=modules,
        tied=_tied(model, modules),
        has_chat_template=architecture.has_chat_template(folder),
        prequantized=formats.method(quantization) if quantization is not None else None,
        unknown=tuple(unknown),
    )


def _dtype(
    config: Any, entries: dict[str, Any], quantization: dict[str, Any] | None, unknown: list[str]
) -> torch.dtype:
    """Of most weights in memory: the config's word, else the headers', else what transformers takes."""
    found = checkpoint.config_dtype(config) or checkpoint.headers_dtype(entries)
    if found is not None:
        return found
    if quantization is not None:
        return torch.bfloat16
    unknown.append("the dtype of the weights: the config does not say it, so float32 is counted")
    return torch.float32


def _forget_quantization(config: Any) -> None:
    """Plain modules are built then, which needs no packages."""
    for part in (config, architecture.text_config(config)):
        if getattr(part, "quantization_config", None) is not None:
            del part.quantization_config


def _sizes_unknown(method: str, modules: tuple[Module, ...], dtype: torch.dtype, seen: bool) -> Iterator[str]:
    if all(module.stored is None for module in modules):
        yield f"how many bytes the {method} weights take: they are counted as {_name(dtype)}"
    elif not seen:
        yield f"the exact bytes of the {method} weights: they follow from the config, no file was looked at"


def _described(folder: Path) -> bool:
    """Whether this is all of the model but its weights, and not a config alone."""
    return (folder / checkpoint.INDEX).exists() or any(folder.glob("tokenizer*"))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


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
    known = frozenset(module.name for module in modules)
    for target, source in model.all_tied_weights_keys.items():
        names = {units.owner(name, known) for name in (target, source)}
        groups.setdefault(source, set()).update(names)
    order = [module.name for module in modules]
    return tuple(tuple(sorted(group, key=order.index)) for group in groups.values() if len(group) > 1)
