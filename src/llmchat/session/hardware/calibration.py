"""Measured speeds of a machine, kept so that they are measured once."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable

import msgspec

from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.protocol import Calibrated
from llmchat.session import paths

RATES = ("ram_bandwidth", "ram_bandwidth_16bit", "disk_bandwidth", "cpu_matmul", "cpu_matmul_16bit")
GPU_RATES = ("read_bandwidth", "link_bandwidth", "pageable_bandwidth", "matmul")
"""Fields of which more is faster."""
OVERHEADS = ("layer_overhead", "cpu_layer_overhead")
"""Fields of which less is."""
Choice = Callable[[float | None, float | None], float | None]
"""Of the earlier and the later figure the one that counts."""
MEASURES = "5"
"""Changes when something else is measured, or otherwise: what was kept before then no longer counts."""


def identity(profile: HardwareProfile) -> str:
    """The same for the same machine with the same driver and libraries, whatever is free on it now."""
    software = profile.software
    parts = [MEASURES, profile.cpu, str(profile.cores), str(profile.ram_total), profile.driver]
    parts += [software.torch, software.torch_cuda or "", software.transformers]
    parts += [f"{gpu.index} {gpu.uuid} {gpu.name} {gpu.total}" for gpu in profile.gpus]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def load(profile: HardwareProfile) -> Calibrated | None:
    """What was measured on this machine; None when nothing was."""
    return _all().get(identity(profile))


def save(profile: HardwareProfile, measured: Calibrated, *, anew: bool = False) -> Calibrated:
    """Keep it, with what was better in an earlier measurement: what else ran then only made it slower. ``anew``:
    in its place, as a person asked for it. Returns what is known now. A cache that cannot be written is no
    error."""
    everything = _all()
    before = everything.get(identity(profile))
    combine = newer if anew else better
    best = everything[identity(profile)] = combine(before, measured) if before else measured
    with contextlib.suppress(OSError):
        target = paths.cache_dir() / "calibration.json"
        part = target.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(msgspec.json.encode(everything))
        part.replace(target)
    return best


def complete(profile: HardwareProfile, disk_file: str) -> bool:
    """Whether nothing is left to measure. ``disk_file``: a file to time the disk with, empty for none."""
    return profile.ram_bandwidth is not None and (profile.disk_bandwidth is not None or not disk_file)


def better(before: Calibrated, now: Calibrated) -> Calibrated:
    """Of two measurements of the same machine the faster one of each thing, with the time of the later."""
    return _combined(before, now, _higher, _lower)


def newer(before: Calibrated, now: Calibrated) -> Calibrated:
    """The later of two measurements; of the earlier one only what the later could not measure, such as a disk
    without a large file on it."""
    return _combined(before, now, _later, _later)


def _combined(before: Calibrated, now: Calibrated, rate: Choice, overhead: Choice) -> Calibrated:
    known = {gpu.index: gpu for gpu in before.gpus}
    return msgspec.structs.replace(
        now,
        gpus=tuple(_combined_gpu(known.get(gpu.index), gpu, rate) for gpu in now.gpus),
        **{name: rate(getattr(before, name), getattr(now, name)) for name in RATES},
        **{name: overhead(getattr(before, name), getattr(now, name)) for name in OVERHEADS},
    )


def _combined_gpu(before: Gpu | None, now: Gpu, rate: Choice) -> Gpu:
    if before is None:
        return now
    chosen = {name: rate(getattr(before, name), getattr(now, name)) for name in GPU_RATES}
    return msgspec.structs.replace(now, **chosen)


def _later(before: float | None, now: float | None) -> float | None:
    return now or before


def _higher(one: float | None, other: float | None) -> float | None:
    return max(filter(None, (one, other)), default=None)


def _lower(one: float | None, other: float | None) -> float | None:
    return min(filter(None, (one, other)), default=None)


def merged(profile: HardwareProfile, measured: Calibrated) -> HardwareProfile:
    """The profile with its bandwidths filled in; what the profile already says stays."""
    gpus = tuple(msgspec.structs.replace(gpu, free=None) for gpu in measured.gpus)  # that was then
    return msgspec.structs.replace(
        with_cuda(profile, gpus),
        **{name: getattr(profile, name) or getattr(measured, name) for name in (*RATES, *OVERHEADS)},
    )


def with_cuda(profile: HardwareProfile, gpus: tuple[Gpu, ...]) -> HardwareProfile:
    """The profile as CUDA sees it. The driver's memory numbers stay, for CUDA's are of an earlier moment; where it
    tells none, CUDA's are taken. Which GPUs there are, their indices and how they reach host memory is CUDA's to
    say. ``gpus`` empty: no CUDA, and the profile stays as it is.

    For a MIG instance CUDA's UUID is the instance's or, by an older call, that of the whole GPU, which NVML lists
    no longer: then the index counts.
    """
    if not gpus:
        return profile
    by_uuid = {_uuid(gpu): gpu for gpu in profile.gpus if gpu.uuid}
    by_index = {gpu.index: gpu for gpu in profile.gpus}
    return msgspec.structs.replace(
        profile,
        gpus=tuple(_merged_gpu(by_uuid.get(_uuid(gpu)) or by_index.get(gpu.index), gpu, profile) for gpu in gpus),
    )


def _uuid(gpu: Gpu) -> str:
    """NVML writes ``GPU-`` or ``MIG-`` before it, torch does not."""
    return gpu.uuid.removeprefix("GPU-").removeprefix("MIG-").lower()


def _merged_gpu(driver: Gpu | None, cuda: Gpu, machine: HardwareProfile) -> Gpu:
    if cuda.managed == "integrated":
        cuda = msgspec.structs.replace(cuda, total=machine.ram_total, free=machine.ram_available)
    if driver is None:
        return cuda
    told = driver.free is not None and driver.managed != "integrated" and cuda.managed != "integrated"
    return msgspec.structs.replace(
        driver,
        index=cuda.index,
        total=driver.total if told else cuda.total,
        free=driver.free if told else cuda.free,
        capability=cuda.capability or driver.capability,
        managed=cuda.managed,
        context=driver.context or cuda.context,
        **{name: getattr(cuda, name) or getattr(driver, name) for name in GPU_RATES},
    )


def _all() -> dict[str, Calibrated]:
    try:
        text = (paths.cache_dir() / "calibration.json").read_bytes()
        return msgspec.json.decode(text, type=dict[str, Calibrated])
    except (OSError, msgspec.DecodeError):
        return {}
