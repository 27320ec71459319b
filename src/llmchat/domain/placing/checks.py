"""Reasons to refuse that are not about memory: hardware, packages, the model's own make."""

from __future__ import annotations

from llmchat.domain.placing.case import Case
from llmchat.domain.plan import Precision, Refusal
from llmchat.domain.precision import quantized_share

LEAST_SHARE = 0.1
"""Below this share of quantized parameters, a quantized precision promises what it does not keep."""


def refused(case: Case, strategy: str, reason: str, *remedies: str) -> Refusal:
    """A refusal that no amount of memory lifts."""
    return Refusal(
        strategy=strategy,
        precision=case.precision,
        kv=case.kv,
        context=case.context,
        reason=reason,
        remedies=remedies,
    )


def not_loadable(case: Case, strategy: str) -> Refusal | None:
    """Refuses a checkpoint whose format this machine cannot load."""
    return refused(case, strategy, case.problem, *filter(None, [case.remedy])) if case.problem else None


def no_gpu(case: Case, strategy: str) -> Refusal | None:
    """Refuses where no GPU can be used at all with this precision."""
    hardware = case.hardware
    if not hardware.gpus:
        return refused(case, strategy, "There is no GPU.")
    if hardware.software.torch and hardware.software.torch_cuda is None:
        return refused(
            case,
            strategy,
            f"torch {hardware.software.torch} is a CPU build and cannot use the GPU.",
            "Install llmchat with the extra cuda12 or cuda13.",
        )
    if not case.gpus:
        oldest = min(gpu.capability for gpu in hardware.gpus if gpu.capability is not None)
        return refused(
            case,
            strategy,
            f"bitsandbytes for CUDA 13 needs compute capability 7.5; this machine's GPUs have "
            f"{oldest[0]}.{oldest[1]}.",
            "Install llmchat with the extra cuda12: its bitsandbytes kernels run on older GPUs.",
        )
    return None


def not_quantizable(case: Case, strategy: str) -> Refusal | None:
    """Refuses a quantized precision that bitsandbytes cannot give this model here."""
    if case.precision is Precision.PUBLISHED:
        return None
    if case.model.prequantized:
        return refused(
            case,
            strategy,
            f"The checkpoint is already quantized ({case.model.prequantized}).",
            "Use it as published.",
        )
    if case.hardware.software.bitsandbytes is None:
        return refused(
            case,
            strategy,
            "bitsandbytes is not installed or does not work here.",
            "pip install bitsandbytes",
        )
    share = quantized_share(case.model, case.precision)
    if share < LEAST_SHARE:
        return refused(
            case,
            strategy,
            f"bitsandbytes would shrink only {share:.0%} of the parameters: the rest, such as fused experts, "
            "stays 16-bit.",
            "Use a checkpoint that is published quantized.",
        )
    return None


def not_offloadable(case: Case, strategy: str) -> Refusal | None:
    """Refuses quantized weights where modules leave their device and their format does not allow it."""
    if case.gpu_only:
        return refused(
            case,
            strategy,
            f"{case.model.prequantized} weights cannot lie partly in RAM or on disk: transformers refuses it.",
            "Hold them on GPUs, or choose a checkpoint that is not quantized.",
        )
    if case.precision is Precision.PUBLISHED:
        return None
    return refused(
        case,
        strategy,
        f"bitsandbytes quantizes only what stays on one device, and {strategy} moves layers.",
        "Offload the weights as published, or hold them quantized on the GPU.",
    )
