"""Checkpoints that are quantized already: held so here, expanded to 16 bit, or not to be loaded at all.

The rules are those of transformers 5.24, ``transformers/quantizers/quantizer_*.py``; each names its file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from llmchat.domain.hardware import HardwareProfile, Software
from llmchat.domain.memory import gib
from llmchat.domain.model import ModelFacts, Module

Capability = tuple[int, int]


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a model's weights on a machine."""

    model: ModelFacts
    """With ``bytes``, ``active_bytes`` and ``largest_tensor`` as memory will hold them."""
    remarks: tuple[str, ...] = ()
    """What a person should know, in sentences without a full stop."""
    problem: str = ""
    """Why it cannot be loaded here; empty when it can."""
    remedy: str = ""
    gpu_only: bool = False
    """No part may lie in RAM or on disk: transformers refuses such device maps for it."""


@dataclass(frozen=True)
class Package:
    """By its name on PyPI, with versions ``least`` <= version < ``below``."""

    name: str
    least: str = ""
    below: str = ""

    def __str__(self) -> str:
        bounds = [f"{self.least} or later" if self.least else "", f"before {self.below}" if self.below else ""]
        text = ", ".join(bound for bound in bounds if bound)
        return f"{self.name} ({text})" if text else self.name

    @property
    def install(self) -> str:
        bounds = ",".join(
            text for text in (self.least and f">={self.least}", self.below and f"<{self.below}") if text
        )
        return f"pip install '{self.name}{bounds}'" if bounds else f"pip install {self.name}"

    def missing(self, software: Software) -> bool:
        found = _version(software, self.name)
        if not found:
            return True
        number = _numbers(found)
        return number < _numbers(self.least) or bool(self.below and number >= _numbers(self.below))


@dataclass(frozen=True)
class Rule:
    """One quantization. The fields are asked from the top down: the first that applies decides."""

    label: str
    refused: str = ""
    """Why transformers loads no such checkpoint anywhere."""
    needs: tuple[Package, ...] = ()
    """Without them loading fails."""
    needs_gpu: bool = False
    """Without a GPU loading fails."""
    least: Capability | None = None
    """Below this compute capability loading fails."""
    dtype: str = ""
    """The only one that it can be loaded in."""
    expands: str = ""
    """Why it is expanded everywhere."""
    keeps_on: Capability | None = None
    """Below this compute capability, and without a GPU, it is expanded."""
    keeps_with: tuple[Package, ...] = ()
    """Without them it is expanded."""
    runs_with: tuple[Package, ...] = ()
    """It is loaded without them, and fails at its first token."""
    runs_on_cpu: bool = True
    """Whether what is kept quantized can be computed by the CPU."""
    gpu_only: bool = False
    """See ``Resolution.gpu_only``."""


KERNELS = Package("kernels", "0.18.2", "0.19.0")
"""The range that transformers 5.24 takes (``utils/import_utils.py``)."""
ACCELERATE = Package("accelerate", "1.1.0")
OPTIMUM, GPTQMODEL = Package("optimum", "1.24.0"), Package("gptqmodel", "1.4.3")
FP8 = Rule("FP8", needs=(ACCELERATE,), keeps_on=(8, 9), runs_with=(KERNELS,), runs_on_cpu=False)

RULES: dict[str, Rule] = {
    # quantizer_mxfp4.py; without a GPU it is expanded because the CPU kernels are only taken with use_kernels=True
    "mxfp4": Rule(
        "MXFP4",
        needs=(ACCELERATE,),
        keeps_on=(7, 5),
        keeps_with=(Package("triton", "3.4.0"), KERNELS),
        runs_on_cpu=False,
    ),
    # quantizer_finegrained_fp8.py; its kernels come through integrations/finegrained_fp8.py
    "fp8": FP8,
    "mxfp8": FP8,
    # quantizer_gptq.py
    "gptq": Rule("GPTQ", needs=(OPTIMUM, GPTQMODEL)),
    # quantizer_awq.py: the kernels of gptqmodel, not those of autoawq
    "awq": Rule("AWQ", needs=(Package("gptqmodel"), ACCELERATE)),
    # quantizer_compressed_tensors.py: without dequantize=True they are decompressed by the first forward pass
    "compressed-tensors": Rule(
        "compressed-tensors",
        needs=(Package("compressed-tensors", "0.15.0"),),
        expands="transformers decompresses them for the first token",
    ),
    # quantizer_bnb_4bit.py, quantizer_bnb_8bit.py: a device map of GPUs, or of the CPU alone
    "bitsandbytes": Rule("bitsandbytes", needs=(ACCELERATE, Package("bitsandbytes", "0.46.1")), gpu_only=True),
    # quantizer_hqq.py
    "hqq": Rule("HQQ", needs=(Package("hqq", "0.2.1"),), runs_on_cpu=False, gpu_only=True),
    # quantizer_torchao.py
    "torchao": Rule("torchao", needs=(Package("torchao", "0.15.0"),)),
    # quantizer_quanto.py
    "quanto": Rule("quanto", needs=(Package("optimum"), Package("optimum-quanto"), ACCELERATE), gpu_only=True),
    # quantizer_auto_round.py
    "auto-round": Rule("AutoRound", needs=(Package("auto-round", "0.5.0"),)),
    # quantizer_aqlm.py
    "aqlm": Rule("AQLM", needs=(ACCELERATE, Package("aqlm"))),
    # quantizer_vptq.py
    "vptq": Rule("VPTQ", needs=(ACCELERATE, Package("vptq", "0.0.4")), needs_gpu=True, runs_on_cpu=False),
    # quantizer_spqr.py
    "spqr": Rule(
        "SpQR", needs=(ACCELERATE, Package("spqr_quant")), needs_gpu=True, dtype="float16", runs_on_cpu=False
    ),
    # quantizer_eetq.py
    "eetq": Rule("EETQ", needs=(KERNELS, ACCELERATE), needs_gpu=True, runs_on_cpu=False, gpu_only=True),
    # quantizer_fbgemm_fp8.py
    "fbgemm_fp8": Rule(
        "FBGEMM FP8", needs=(Package("fbgemm-gpu"), ACCELERATE), needs_gpu=True, least=(9, 0), runs_on_cpu=False
    ),
    # quantizer_fp_quant.py
    "fp_quant": Rule(
        "FP-Quant",
        needs=(Package("fp-quant", "0.3.2"), Package("qutlass", "0.2.0")),
        needs_gpu=True,
        runs_on_cpu=False,
        gpu_only=True,
    ),
    # quantizer_higgs.py
    "higgs": Rule(
        "HIGGS",
        needs=(ACCELERATE, Package("flute-kernel", "0.4.1"), Package("fast-hadamard-transform")),
        needs_gpu=True,
        runs_on_cpu=False,
        gpu_only=True,
    ),
    # quantizer_bitnet.py
    "bitnet": Rule("BitNet", needs=(ACCELERATE,), gpu_only=True),
    # quantizer_sinq.py
    "sinq": Rule("SINQ", needs=(Package("sinq"),), gpu_only=True),
    # quantizer_quark.py
    "quark": Rule("Quark", needs=(Package("amd-quark", "0.12"),)),
    # quantizer_fouroversix.py
    "fouroversix": Rule("fouroversix", needs=(Package("fouroversix"),)),
    # quantizer_nvfp4.py
    "nvfp4": Rule("NVFP4", refused="transformers does not load checkpoints in NVFP4 yet"),
    # quantizer_metal.py
    "metal": Rule("Metal", expands="its kernels run on Apple silicon only"),
    # quantizer_gemma.py
    "gemma": Rule("Gemma's own quantization"),
}


def resolve(model: ModelFacts, hardware: HardwareProfile, on_gpu: bool) -> Resolution:
    """``model`` as this machine will hold it. ``on_gpu``: whether a GPU executes it, wherever its weights lie."""
    if model.prequantized is None:
        return Resolution(model=model)
    rule = RULES.get(model.prequantized)
    if rule is None:
        name = model.prequantized
        return Resolution(
            model=model,
            problem=f"The checkpoint is quantized with {name}, which transformers does not know.",
            remedy="Choose another copy of the model.",
        )
    problem, remedy = _problem(rule, model, hardware, on_gpu)
    if problem:
        return Resolution(model=model, problem=problem, remedy=remedy)
    if reason := _expanded(rule, hardware):
        return Resolution(model=model, remarks=(_expansion(rule, model, reason),))
    problem, remedy = _cannot_run(rule, hardware, on_gpu)
    if problem:
        return Resolution(model=model, problem=problem, remedy=remedy)
    known = any(module.stored is not None for module in model.modules)
    remark = (
        f"{rule.label} weights are kept as they are"
        if known
        else f"{rule.label} weights may take less than planned"
    )
    modules = tuple(_as_stored(module) for module in model.modules)
    held = msgspec.structs.replace(model, modules=modules)
    return Resolution(model=held, remarks=(remark,), gpu_only=rule.gpu_only and on_gpu)


def stored_bytes(model: ModelFacts) -> int:
    """Bytes of all weights as the checkpoint keeps them."""
    return sum(module.bytes if module.stored is None else module.stored for module in model.modules)


def _problem(rule: Rule, model: ModelFacts, hardware: HardwareProfile, on_gpu: bool) -> tuple[str, str]:
    """Why loading would fail, and what to do; both empty when it would not."""
    other = "Choose another copy of the model."
    if rule.refused:
        return f"{rule.refused}.", other
    missing = [package for package in rule.needs if package.missing(hardware.software)]
    if missing:
        return _lacking(rule, "Loading", missing)
    if rule.needs_gpu and not (on_gpu and hardware.gpus):
        return f"{rule.label} weights need a GPU.", other
    if rule.least and not _reaches(hardware, rule.least):
        least = _capability(rule.least)
        return f"{rule.label} weights need a GPU of compute capability {least} or more{_found(hardware)}.", other
    if rule.dtype and model.dtype != rule.dtype:
        return f"{rule.label} weights can only be loaded in {rule.dtype}; the config says {model.dtype}.", other
    return "", ""


def _expanded(rule: Rule, hardware: HardwareProfile) -> str:
    """Why transformers expands the weights; empty when it keeps them."""
    if rule.expands:
        return rule.expands
    if rule.keeps_on and not hardware.gpus:
        return f"{rule.label} kernels need a GPU"
    if rule.keeps_on and not _reaches(hardware, rule.keeps_on):
        least = _capability(rule.keeps_on)
        return f"{rule.label} kernels need a GPU of compute capability {least} or more{_found(hardware)}"
    missing = [package for package in rule.keeps_with if package.missing(hardware.software)]
    if missing:
        return f"{rule.label} kernels need {_packages(missing)}"
    return ""


def _cannot_run(rule: Rule, hardware: HardwareProfile, on_gpu: bool) -> tuple[str, str]:
    """Why weights that are kept quantized would fail at the first token."""
    missing = [package for package in rule.runs_with if package.missing(hardware.software)]
    if missing:
        return _lacking(rule, "Running", missing)
    if not on_gpu and not rule.runs_on_cpu:
        return f"The CPU cannot compute with {rule.label} weights.", "Let a GPU execute the model."
    return "", ""


def _expansion(rule: Rule, model: ModelFacts, reason: str) -> str:
    stored = stored_bytes(model)
    from_to = f" from {gib(stored)} to {gib(model.weight_bytes)}" if stored < model.weight_bytes else ""
    return f"expanded{from_to}: {reason}"


def _as_stored(module: Module) -> Module:
    """``module`` with the bytes of the checkpoint in place of those expanded to 16 bit."""
    if module.stored is None or not module.bytes:
        return module
    active = module.stored_active
    return msgspec.structs.replace(
        module,
        bytes=module.stored,
        active_bytes=module.active_bytes * module.stored // module.bytes if active is None else active,
        largest_tensor=min(module.stored, module.largest_tensor * module.stored // module.bytes),
        linear_params=0,
        linear_bytes=0,
    )


def _lacking(rule: Rule, doing: str, missing: list[Package]) -> tuple[str, str]:
    installs = " and ".join(f"`{package.install}`" for package in missing)
    return f"{doing} {rule.label} weights needs {_packages(missing)}.", f"Install what is missing: {installs}."


def _packages(missing: list[Package]) -> str:
    word = "package" if len(missing) == 1 else "packages"
    return f"the {word} {' and '.join(map(str, missing))}"


def _reaches(hardware: HardwareProfile, least: Capability) -> bool:
    """Whether the first GPU, the one that transformers asks, is known to have this compute capability."""
    first = hardware.gpus[0].capability if hardware.gpus else None
    return first is not None and tuple(first) >= least


def _found(hardware: HardwareProfile) -> str:
    """Which one the first GPU has, for the end of a sentence."""
    first = hardware.gpus[0].capability if hardware.gpus else None
    return "; that of GPU 0 is not known" if first is None else f"; GPU 0 has {_capability(first)}"


def _capability(value: Capability) -> str:
    return f"{value[0]}.{value[1]}"


def _version(software: Software, package: str) -> str:
    own = {"accelerate": software.accelerate, "bitsandbytes": software.bitsandbytes or ""}
    return software.packages.get(package) or own.get(package, "")


def _numbers(version: str) -> tuple[int, ...]:
    """``3.4.0+git1`` as (3, 4): the release without zeros at its end, so that 3.4 and 3.4.0 are equal."""
    release = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in release[0].split(".")] if release else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
