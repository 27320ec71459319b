"""Bytes of each module as a quantized checkpoint keeps them, by its headers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightRenaming

from llmchat.domain.model import Module
from llmchat.engine.model import checkpoint, units


def from_headers(model: Any, modules: tuple[Module, ...], entries: dict[str, Any]) -> tuple[Module, ...]:
    """``modules`` with ``stored`` from the tensors in ``entries``. Those of no module, as of layers that
    transformers does not build, are left out; a module without tensors there is as it was."""
    renamings = [t for t in get_model_conversion_mapping(model) if isinstance(t, WeightRenaming)]
    names = frozenset(module.name for module in modules)
    prefix = model.base_model_prefix
    sizes: Counter[str] = Counter()
    for name, entry in entries.items():
        renamed = name
        for renaming in renamings:
            renamed, _ = renaming.rename_source_key(renamed)
        places = (renamed, f"{prefix}.{renamed}", renamed.removeprefix(f"{prefix}."))
        sizes[next((found for place in places if (found := units.owner(place, names))), "")] += checkpoint.size(
            entry
        )
    return tuple(_with(module, sizes[module.name]) for module in modules)


def _with(module: Module, size: int) -> Module:
    """What is active of it changes by the same share as the whole does."""
    if not size or not module.bytes:
        return msgspec.structs.replace(module, stored=None, stored_active=None)
    share, of = (module.active_bytes, module.bytes)
    if module.stored and module.stored_active is not None:
        share, of = module.stored_active, module.stored
    return msgspec.structs.replace(module, stored=size, stored_active=share * size // of)
