"""What the engine's environment has installed: from package metadata alone, without an import."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from pathlib import Path

from llmchat.domain.hardware import Software

__all__ = ["cuda_in", "software"]

PACKAGES = (
    "aqlm",
    "auto-round",
    "autoawq",
    "bitsandbytes",
    "compressed-tensors",
    "eetq",
    "fbgemm-gpu",
    "gptqmodel",
    "hqq",
    "kernels",
    "optimum",
    "optimum-quanto",
    "torchao",
    "triton",
    "vptq",
)
"""What transformers asks for when it loads a checkpoint that is quantized."""
OTHER_NAMES = {
    "fbgemm-gpu": ("fbgemm-gpu-genai",),
    "triton": ("triton-windows", "pytorch-triton", "pytorch-triton-xpu"),
}
"""Distributions that bring the same module."""


def software() -> Software:
    found = {name: _version(name, *OTHER_NAMES.get(name, ())) for name in PACKAGES}
    return Software(
        torch=_version("torch") or "",
        torch_cuda=_torch_cuda(),
        transformers=_version("transformers") or "",
        accelerate=_version("accelerate") or "",
        bitsandbytes=found["bitsandbytes"],
        rmm=_version("rmm-cu13", "rmm-cu12", "rmm"),
        packages={name: version for name, version in found.items() if version is not None},
    )


def _version(*names: str) -> str | None:
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _torch_cuda() -> str | None:
    """The line ``cuda = '13.0'`` of torch/version.py, read as text."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    return cuda_in(Path(spec.origin).with_name("version.py"))


def cuda_in(version_file: Path) -> str | None:
    """The CUDA version in such a file; None for a CPU build."""
    try:
        text = version_file.read_text()
    except OSError:
        return None
    found = re.search(r"""^cuda\s*(?::[^=]+)?=\s*["']([\d.]+)["']""", text, re.M)
    return found[1] if found else None
