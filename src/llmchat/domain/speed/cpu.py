"""What a CPU does in a second: from what calibration measured, else assumed from one machine.

"The EPYC" of the figures: two cores with AVX512-BF16, SmolLM2-135M, torch 2.13, bitsandbytes 0.50, measured in
December 2026: 21 ms a token as published, 37 ms in 8 bit, 17 ms in 4 bit; 512 tokens of prompt in 0.29, 0.53,
0.36 s.
"""

from __future__ import annotations

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.model import LayerCache, ModelFacts, Module
from llmchat.domain.plan import Precision

RAM_BANDWIDTH = 27.5e9
"""Bytes/s, read by two cores of a desktop-class machine; assumed where nothing was measured."""
RAM_SHARE = 0.5
"""Of the float32 bandwidth, what a 16-bit decode step reaches where that alone is known: 0.38 measured for
SmolLM2-135M on 2 cores, 0.64 for 24 layers of an 8-billion model on 16 cores."""
DECODE_SHARE = 0.7
"""Of the bandwidth measured in the model's dtype, what a decode step reaches beside launches and attention: about
0.8 on the EPYC, 0.64 for 24 layers of an 8-billion model on 16 cores."""
ATTENTION_SHARE = 0.2
"""Of that bandwidth, the rate at which keys and values, expanded for every query head, pass through a decode
step's attention: 5 of 24 GB/s on the EPYC, the same from 500 to 7,000 tokens."""
BNB_DECODE = {Precision.INT8: 2.45, Precision.INT4: 2.33}
"""Seconds of a quantized layer against reading its published bytes: 8 bit on the EPYC; 4 bit an estimate for
dequantizing before multiplying."""
BNB_DECODE_KERNEL = 0.47
"""4 bit on a CPU with bfloat16 instructions, where bitsandbytes multiplies 4-bit weights as they are: the EPYC."""
BNB_PREFILL = {Precision.INT8: 3.2, Precision.INT4: 1.65}
"""In prefill, against products of 16-bit weights: the EPYC."""
TOKEN_SECONDS = 37e-9
"""Core-seconds of a prompt's token, for each layer and unit of the hidden state, beside the products of matrices
(norms, rotations, attention): 0.17 s of those 0.29 s on the EPYC."""
FLOPS = {"float32": 53e9}
"""FLOP/s a core in prefill, measured for SmolLM2-135M on 2 cores with AVX2."""
FLOPS_16BIT = 11.5e9
"""The same in bfloat16, which that CPU has no instructions for; assumed where nothing was measured."""


class CpuRates:
    """``prompt``: tokens that are prefilled."""

    def __init__(self, model: ModelFacts, hardware: HardwareProfile, held: Precision, prompt: int) -> None:
        self._cores, self._prompt = hardware.cores, prompt
        self._hidden = model.hidden_size
        self._prefill_slowdown = BNB_PREFILL.get(held, 1.0)
        self._decode_slowdown = _decode_slowdown(hardware, held)
        self._matmul = _matmul(model, hardware)
        self._assumed = FLOPS.get(model.dtype, FLOPS_16BIT) * hardware.cores
        self._ram = _ram(model, hardware)
        self._expanded = model.attention_bytes or 0

    def read(self, module: Module) -> float:
        """Seconds of a pass that is bound by reading the module's weights."""
        return module.active_bytes * (self._decode_slowdown if module.linear_params else 1.0) / self._ram

    def attend(self, cache: LayerCache, context: int) -> float:
        """Seconds of one token's attention to ``context`` others."""
        tokens = min(context, cache.window or context)
        expanded = max(cache.per_token, self._expanded) * tokens if cache.per_token else 0
        return cache.constant / self._ram + expanded * DECODE_SHARE / (self._ram * ATTENTION_SHARE)

    def multiply(self, module: Module, operations: float) -> float:
        """Seconds of the prompt's ``operations``, and of what stands between the products."""
        if self._matmul is None:
            return operations / self._assumed
        slowdown = self._prefill_slowdown if module.linear_params else 1.0
        units = self._prompt * self._hidden if module.kind == "layer" else 0
        return operations * slowdown / self._matmul + TOKEN_SECONDS * units / self._cores


def _ram(model: ModelFacts, hardware: HardwareProfile) -> float:
    """Bytes/s of weights that a decode step reads. Profiles of older versions have the float32 figure alone."""
    if hardware.ram_bandwidth is None or hardware.ram_bandwidth_16bit is None:
        return (hardware.ram_bandwidth or RAM_BANDWIDTH) * RAM_SHARE
    return DECODE_SHARE * (hardware.ram_bandwidth if model.dtype == "float32" else hardware.ram_bandwidth_16bit)


def _matmul(model: ModelFacts, hardware: HardwareProfile) -> float | None:
    """FLOP/s of all cores in the model's dtype; None where that was not measured."""
    return hardware.cpu_matmul if model.dtype == "float32" else hardware.cpu_matmul_16bit


def _decode_slowdown(hardware: HardwareProfile, held: Precision) -> float:
    """Products that are faster in bfloat16 than in float32 are the sign of instructions for it."""
    if held is Precision.INT4 and hardware.cpu_matmul and hardware.cpu_matmul_16bit:
        return BNB_DECODE_KERNEL if hardware.cpu_matmul_16bit > hardware.cpu_matmul else BNB_DECODE[held]
    return BNB_DECODE.get(held, 1.0)
