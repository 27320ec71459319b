"""Bytes of units of an empty model: what they will take in memory, what decoding reads, what can be quantized."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers.core_model_loading import build_glob_alternation
from transformers.pytorch_utils import Conv1D
from transformers.quantizers.base import get_keys_to_not_convert
from transformers.quantizers.quantizers_utils import should_convert_module

from llmchat.domain.model import LayerCache, Module
from llmchat.engine.model import units
from llmchat.engine.model.formats import Format

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
CHOSEN = ("num_experts_per_tok", "top_k_experts", "moe_topk", "num_experts_per_token", "moe_k")
"""Names under which configs keep how many experts there are, and how many a token visits."""


class Measure:
    """Bytes of units, as from_pretrained would hold them in ``dtype``."""

    def __init__(self, model: Any, dtype: torch.dtype, text: Any, form: Format | None = None) -> None:
        """``form``: of a quantized checkpoint; then nothing is left for bitsandbytes to replace."""
        self.form = form
        self.tied: dict[str, str] = model.all_tied_weights_keys
        self.seen: set[int | str] = set()
        self.share = _expert_share(text)
        self.experts = _first(text, EXPERTS)
        self.plan: dict[str, torch.dtype] = model._get_dtype_plan(dtype)
        self.linears = _linears(model) if form is None else frozenset()
        self.parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        self.rows = {
            f"{name}.weight": module.num_embeddings
            for name, module in model.named_modules()
            if isinstance(module, nn.Embedding)
        }

    def modules(self, found: list[units.Unit], caches: dict[str, LayerCache]) -> tuple[Module, ...]:
        return tuple(self._module(unit, caches.get(unit.name, LayerCache())) for unit in found)

    def _module(self, unit: units.Unit, cache: LayerCache) -> Module:
        size = active = linear_params = linear_bytes = largest = stored = stored_active = 0
        for name, tensor in unit.tensors.items():
            count = tensor.numel() * self._item(name, tensor)
            kept = self.form.bytes(name, tensor, count) if self.form else count
            if not unit.idle:
                active += self._active(name, tensor, count)
                stored_active += self._active(name, tensor, kept)
            if not self._first_holder(name, tensor):
                continue
            size += count
            stored += kept
            largest = max(largest, count)
            if name in self.linears:
                linear_params += tensor.numel()
                linear_bytes += count
        known = self.form is not None and self.form.known
        return Module(
            name=unit.name,
            kind=unit.kind,
            bytes=size,
            linear_params=linear_params,
            linear_bytes=linear_bytes,
            active_bytes=active,
            largest_tensor=largest,
            stored=stored if known else None,
            stored_active=stored_active if known else None,
            cache=cache,
        )

    def _item(self, name: str, tensor: torch.Tensor) -> int:
        """Bytes of an element: float32 where the model insists; buffers keep the dtype they are built with."""
        if self.plan and name in self.parameters:
            pattern, by_group, _ = build_glob_alternation(list(self.plan))
            if (match := pattern.search(name)) and match.lastgroup:
                return self.plan[by_group[match.lastgroup]].itemsize
        return tensor.element_size()

    def _first_holder(self, name: str, tensor: torch.Tensor) -> bool:
        keys: set[int | str] = {id(tensor), self.tied.get(name, name)}
        new = not (keys & self.seen)
        self.seen |= keys
        return new

    def _active(self, name: str, tensor: torch.Tensor, count: int) -> int:
        if name in self.rows:
            return count // self.rows[name]
        fused = tensor.dim() == 3 and tensor.shape[0] == self.experts
        return int(count * self.share) if fused or ".experts." in name else count


def _linears(model: Any) -> frozenset[str]:
    """Full names of the weights that transformers' bitsandbytes quantizers replace (biases stay as they are)."""
    skipped = [*get_keys_to_not_convert(model), *(model._keep_in_fp32_modules or ())]
    return frozenset(
        f"{name}.weight"
        for name, module in model.named_modules()
        if (type(module) is nn.Linear or isinstance(module, Conv1D)) and should_convert_module(name, skipped)
    )


def _expert_share(text: Any) -> float:
    """Of the experts, how many a token visits (1 for a dense model)."""
    total, chosen = _first(text, EXPERTS), _first(text, CHOSEN)
    return min(1.0, chosen / total) if total and chosen else 1.0


def _first(config: Any, names: tuple[str, ...]) -> int | None:
    values = (getattr(config, name, None) for name in names)
    return next((value for value in values if isinstance(value, int)), None)
