"""What a precision makes of a module's bytes: bitsandbytes replaces linear layers, all else stays as published."""

from __future__ import annotations

from llmchat.domain.model import ModelFacts, Module
from llmchat.domain.plan import Precision

NF4_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Bytes a parameter of nf4 with double quantization (0.516): half a byte, one byte of scale for 64 parameters, and
one float32 for 256 of those scales. From bitsandbytes 0.50 (blocksize 64, nested blocksize 256)."""
INT8_BYTES = 1.0
INT8_ROW_BYTES = 4
"""bitsandbytes' 8-bit weight keeps the largest value of every row as float32 beside its one byte a parameter."""

ORDER = (Precision.PUBLISHED, Precision.INT8, Precision.INT4)
"""The most precise first."""


def weight_bytes(module: Module, precision: Precision, hidden_size: int) -> int:
    """Bytes of ``module`` in memory under ``precision``. ``hidden_size`` stands for the length of a row."""
    if precision is Precision.PUBLISHED or module.linear_params == 0:
        return module.bytes
    rest = module.bytes - module.linear_bytes
    return rest + int(module.linear_params * bytes_per_parameter(precision, hidden_size))


def bytes_per_parameter(precision: Precision, hidden_size: int) -> float:
    """Of a parameter that bitsandbytes quantizes."""
    if precision is Precision.INT4:
        return NF4_BYTES
    return INT8_BYTES + INT8_ROW_BYTES / max(1, hidden_size)


def active_bytes(module: Module, precision: Precision, hidden_size: int) -> int:
    """Bytes read to decode one token under ``precision``: the published ones, scaled as the whole module is."""
    if precision is Precision.PUBLISHED or module.linear_params == 0:
        return module.active_bytes
    return module.active_bytes * weight_bytes(module, precision, hidden_size) // max(1, module.bytes)


def model_bytes(model: ModelFacts, precision: Precision) -> int:
    """Bytes of all weights under ``precision``."""
    return sum(weight_bytes(module, precision, model.hidden_size) for module in model.modules)


def quantized_share(model: ModelFacts, precision: Precision) -> float:
    """Of the parameters, how many ``precision`` really shrinks (0..1)."""
    if precision is Precision.PUBLISHED or model.parameters == 0:
        return 0.0
    return min(1.0, sum(module.linear_params for module in model.modules) / model.parameters)
