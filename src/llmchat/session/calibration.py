"""Measured bandwidths of a machine, kept so that they are measured once."""

from __future__ import annotations

import contextlib
import hashlib
import os

import msgspec

from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.protocol import Calibrated
from llmchat.session import paths


def identity(profile: HardwareProfile) -> str:
    """The same for the same machine with the same driver and torch, whatever is free on it now."""
    parts = [profile.cpu, str(profile.cores), str(profile.ram_total), profile.driver, profile.software.torch]
    parts += [f"{gpu.index} {gpu.uuid} {gpu.name} {gpu.total}" for gpu in profile.gpus]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def load(profile: HardwareProfile) -> Calibrated | None:
    """What was measured on this machine; None when nothing was."""
    return _all().get(identity(profile))


def save(profile: HardwareProfile, measured: Calibrated) -> None:
    """Keep it; a cache that cannot be written is no error."""
    everything = _all() | {identity(profile): measured}
    with contextlib.suppress(OSError):
        target = paths.cache_dir() / "calibration.json"
        part = target.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(msgspec.json.encode(everything))
        part.replace(target)


def merged(profile: HardwareProfile, measured: Calibrated) -> HardwareProfile:
    """The profile with its bandwidths filled in; what the profile already says stays."""
    return msgspec.structs.replace(
        with_cuda(profile, measured.gpus),
        ram_bandwidth=profile.ram_bandwidth or measured.ram_bandwidth,
        disk_bandwidth=profile.disk_bandwidth or measured.disk_bandwidth,
        layer_overhead=profile.layer_overhead or measured.layer_overhead,
    )


def with_cuda(profile: HardwareProfile, gpus: tuple[Gpu, ...]) -> HardwareProfile:
    """The profile as CUDA sees it. The driver's memory numbers stay, for CUDA's are of an earlier moment; which
    GPUs there are, their indices and how they reach host memory is CUDA's to say. ``gpus`` empty: no CUDA, and
    the profile stays as it is."""
    if not gpus:
        return profile
    by_uuid = {_uuid(gpu): gpu for gpu in profile.gpus if gpu.uuid}
    by_index = {gpu.index: gpu for gpu in profile.gpus}
    return msgspec.structs.replace(
        profile, gpus=tuple(_merged_gpu(by_uuid.get(_uuid(gpu)) or by_index.get(gpu.index), gpu) for gpu in gpus)
    )


def _uuid(gpu: Gpu) -> str:
    """NVML writes ``GPU-`` before it, torch does not."""
    return gpu.uuid.removeprefix("GPU-").lower()


def _merged_gpu(driver: Gpu | None, cuda: Gpu) -> Gpu:
    if driver is None:
        return cuda
    return msgspec.structs.replace(
        driver,
        index=cuda.index,
        capability=cuda.capability or driver.capability,
        managed=cuda.managed,
        read_bandwidth=cuda.read_bandwidth or driver.read_bandwidth,
        link_bandwidth=cuda.link_bandwidth or driver.link_bandwidth,
    )


def _all() -> dict[str, Calibrated]:
    try:
        text = (paths.cache_dir() / "calibration.json").read_bytes()
        return msgspec.json.decode(text, type=dict[str, Calibrated])
    except (OSError, msgspec.DecodeError):
        return {}
