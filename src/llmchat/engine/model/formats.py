"""Bytes of a tensor in a quantized checkpoint, by formula: for a model of which only the config is at hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from transformers.quantizers.base import get_keys_to_not_convert
from transformers.quantizers.quantizers_utils import should_convert_module

Settings = Mapping[str, Any]
"""The ``quantization_config`` of config.json."""
Formula = Callable[[torch.Tensor, Settings], float]
"""Bytes of a matrix, or of a stack of matrices (experts, rows, columns), with its scales."""

SKIPPED = ("modules_to_not_convert", "llm_int8_skip_modules", "ignored_layers")
"""Under which a config names the modules that stay as they are."""


def settings(config: Any) -> dict[str, Any] | None:
    """The checkpoint's own quantization; None for plain weights."""
    for part in (config, config.get_text_config(decoder=True)):
        found = getattr(part, "quantization_config", None)
        if found is not None:
            return dict(found) if isinstance(found, Mapping) else dict(found.to_dict())
    return None


def method(found: Settings) -> str:
    """Its name. Configs of old bitsandbytes say only how many bits."""
    if found.get("load_in_8bit") or found.get("load_in_4bit"):
        return "bitsandbytes"
    name = found.get("quant_method")
    return str(getattr(name, "value", name) or "unknown")


class Format:
    """Which tensors of a model a checkpoint quantizes, and what they then take."""

    def __init__(self, model: Any, found: Settings) -> None:
        self._settings = found
        linears, experts = FORMULAS.get(method(found), (None, None))
        self.known = linears is not None or experts is not None
        skipped = next((found[key] for key in SKIPPED if found.get(key)), None)
        patterns = [*(skipped or get_keys_to_not_convert(model)), *(model._keep_in_fp32_modules or ())]
        self._formulas: dict[str, Formula] = {}
        for name, module in model.named_modules():
            if not should_convert_module(name, patterns):
                continue
            if linears and type(module) is nn.Linear:
                self._formulas[f"{name}.weight"] = linears
            if experts and name.endswith(".experts"):
                matrices = [key for key, tensor in module.named_parameters() if tensor.dim() == 3]
                self._formulas |= {f"{name}.{key}": experts for key in matrices}

    def bytes(self, name: str, tensor: torch.Tensor, plain: int) -> int:
        """Of a tensor that takes ``plain`` bytes unquantized."""
        formula = self._formulas.get(name)
        return plain if formula is None else int(formula(tensor, self._settings))


def _mxfp4(weight: torch.Tensor, _: Settings) -> float:
    """Half a byte each, and a byte of scale for 32 (``integrations/mxfp4.py`` in transformers)."""
    return weight.numel() * (1 / 2 + 1 / 32)


def _fp8(weight: torch.Tensor, found: Settings) -> float:
    """A byte each, and a float32 for every block, begun ones too (``integrations/finegrained_fp8.py``)."""
    block = found.get("weight_block_size") or weight.shape[-2:]
    *stack, rows, columns = weight.shape
    return weight.numel() + 4 * math.prod(stack) * math.ceil(rows / block[0]) * math.ceil(columns / block[1])


def _mxfp8(weight: torch.Tensor, _: Settings) -> float:
    return weight.numel() * (1 + 1 / 32)


def _grouped(weight: torch.Tensor, found: Settings) -> float:
    """GPTQ and AWQ: for each group of a row a 16-bit scale and a zero point of as many bits as a weight."""
    bits, (rows, columns) = int(found.get("bits") or found.get("w_bit") or 4), weight.shape
    size = int(found.get("group_size") or found.get("q_group_size") or 128)
    groups = math.ceil(columns / (size if size > 0 else columns)) * rows
    index = 4 * columns if method(found) == "gptq" else 0
    return weight.numel() * bits / 8 + groups * (2 + bits / 8) + index


def _bitsandbytes(weight: torch.Tensor, found: Settings) -> float:
    """8 bit: a float32 a row beside them. 4 bit: a scale for 64, float32 or itself quantized to a byte."""
    if not found.get("load_in_4bit"):
        return weight.numel() + 4 * weight.shape[0]
    scale = 1 + 4 / 256 if found.get("bnb_4bit_use_double_quant") else 4
    return weight.numel() * (1 / 2 + scale / 64)


FORMULAS: dict[str, tuple[Formula | None, Formula | None]] = {
    "mxfp4": (None, _mxfp4),
    "fp8": (_fp8, _fp8),
    "mxfp8": (_mxfp8, _mxfp8),
    "gptq": (_grouped, None),
    "awq": (_grouped, None),
    "bitsandbytes": (_bitsandbytes, None),
}
"""By method: of linear layers, of fused experts. None where those are not quantized."""
