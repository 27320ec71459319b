"""The machine as the planner gets it: given, faked, or probed and completed by what the engine measured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import CPU, Account, Accounts, cuda
from llmchat.errors import UsageError
from llmchat.protocol import Calibrate, Calibrated, Event, Ready
from llmchat.session.hardware import calibration
from llmchat.session.hardware.footprint import footprint
from llmchat.session.process.engine_host import EngineHost
from llmchat.session.state import MemorySample
from llmchat.session.threads import in_thread

SETTLE_SECONDS = 15.0
"""At most, for a driver to give an ended process's memory back; it is usually there at once."""
STEADY_SECONDS = 1.5
"""Free memory that has not grown for so long is taken as all that comes back."""
SETTLE_SLACK = 256 * 2**20
"""Bytes by which other processes may have grown meanwhile."""
CALIBRATION_FILE_MIN = 64 * 2**20
"""Bytes; a smaller file says nothing about the disk."""


class Machine:
    def __init__(self, engine: EngineHost, given: HardwareProfile | None, fake: Path | None) -> None:
        self._engine = engine
        self._given = given
        self._fake = fake

    @property
    def real(self) -> bool:
        """False for a given or faked machine, whose numbers do not move."""
        return self._given is None and self._fake is None

    @property
    def fake(self) -> bool:
        """The engine is the fake one of this machine."""
        return self._fake is not None

    async def profile(self, held: Accounts | None = None) -> HardwareProfile:
        """The machine now, as a new engine would find it: ``held`` is what ours has at this moment."""
        if self._given is not None:
            return self._given
        if self._fake is not None:
            return await in_thread(read_profile, self._fake)
        probed = profile = await in_thread(_probe)
        ready = self._engine.ready
        if ready is not None:
            profile = as_engine_sees(profile, ready)
        known = await in_thread(calibration.load, profile)
        if known is not None:
            profile = calibration.merged(profile, known)
        return profile.returning(await self._coming_back(held or {}, probed, profile))

    async def _coming_back(self, held: Accounts, probed: HardwareProfile, seen: HardwareProfile) -> Accounts:
        """What the present engine's end gives back: its GPU memory as ``held`` says, and of RAM what it has now,
        with a model or without: the planner counts a whole engine process for every plan.

        ``probed``: by the driver; where it knows no free memory, CUDA's figure in ``seen`` is from before the
        engine held anything. A GPU that shares the RAM gives back to it.
        """
        own = await in_thread(footprint, self._engine.pid)
        back = dict(held) if own is None else {**held, CPU: Account(compute=own.private)}
        for name in {cuda(gpu.index) for gpu in probed.gpus if gpu.free is None} & set(back):
            del back[name]
        shared = [cuda(gpu.index) for gpu in seen.gpus if gpu.managed == "integrated"]
        if shared:
            pool = sum(back[name].engine for name in (CPU, *shared) if name in back)
            back |= dict.fromkeys((CPU, *shared), Account(compute=pool))
        return back

    async def calibrated(
        self, profile: HardwareProfile, folder: Path, on_event: Callable[[Event], None]
    ) -> HardwareProfile:
        """With speeds: measured by the engine, once for a machine, and again while something is missing that can
        be measured now. A given machine is as it is given."""
        if not self.real:
            return profile
        file = await in_thread(large_file, folder.glob("*.safetensors"))
        if calibration.complete(profile, file):
            return profile
        measured = await self._engine.run(Calibrate(id=0, disk_file=file), Calibrated, on_event)
        ready = self._engine.ready
        if ready is not None:
            profile = as_engine_sees(profile, ready)
        return calibration.merged(profile, await in_thread(calibration.save, profile, measured))

    async def settle(self, expected: HardwareProfile) -> int:
        """Wait until every GPU has the free memory of ``expected``, or no more comes; the bytes still missing."""
        if not self.real or not expected.gpus:
            return 0
        clock = asyncio.get_running_loop().time
        began = steady_since = clock()
        least = missing = _missing(await in_thread(_probe), expected)
        while (
            missing > SETTLE_SLACK and clock() - began < SETTLE_SECONDS and clock() - steady_since < STEADY_SECONDS
        ):
            await asyncio.sleep(0.1)
            missing = _missing(await in_thread(_probe), expected)
            if missing < least:
                least, steady_since = missing, clock()
        return missing

    def replanning(self, known: HardwareProfile, sample: MemorySample | None) -> HardwareProfile:
        """``known`` as it would be without our engine, by the last memory sample: for planning at once."""
        if not self.real or sample is None:
            return known
        held: dict[str, Account] = {cuda(gpu.index): gpu.account for gpu in sample.gpus}
        gpus = tuple(
            msgspec.structs.replace(gpu, free=held[cuda(gpu.index)].free)
            if gpu.free is not None and cuda(gpu.index) in held
            else gpu
            for gpu in known.gpus
        )
        now = msgspec.structs.replace(known, gpus=gpus, ram_available=sample.ram.free)
        return now.returning(held | {CPU: sample.ram})


def read_profile(path: Path) -> HardwareProfile:
    """A machine from its JSON file. Raises UsageError naming the file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=HardwareProfile)
    except OSError as error:
        raise UsageError("Hardware file not readable", f"{path}: {error.strerror}.") from error
    except msgspec.DecodeError as error:
        raise UsageError(
            "Hardware file not understood",
            f"{path}: {error}.",
            "See tests/data/hardware for examples, or `llmchat doctor --json` for this machine.",
        ) from error


def _probe() -> HardwareProfile:
    from huggingface_hub.constants import HF_HUB_CACHE

    from llmchat.session.hardware.probe import probe

    return probe(Path(HF_HUB_CACHE))


def as_engine_sees(profile: HardwareProfile, ready: Ready) -> HardwareProfile:
    """What package metadata cannot tell: the engine has imported these libraries and tried them."""
    versions = ready.versions
    if "torch" not in versions:
        return profile
    broken = any(warning.startswith("bitsandbytes") for warning in ready.warnings)
    software = msgspec.structs.replace(
        profile.software,
        torch=versions["torch"],
        torch_cuda=versions.get("cuda"),
        bitsandbytes=None if broken else versions.get("bitsandbytes"),
        rmm=versions.get("rmm"),
    )
    return calibration.with_cuda(msgspec.structs.replace(profile, software=software), ready.gpus)


def large_file(paths: Iterable[Path]) -> str:
    """The largest of them, to time the disk with; empty where none is large enough."""
    sizes = {str(path): path.stat().st_size for path in paths if path.is_file()}
    largest = max(sizes, key=sizes.__getitem__, default="")
    return largest if largest and sizes[largest] >= CALIBRATION_FILE_MIN else ""


def _missing(now: HardwareProfile, expected: HardwareProfile) -> int:
    """Bytes by which free GPU memory falls short, over all GPUs."""
    free = {gpu.uuid or str(gpu.index): gpu.free for gpu in now.gpus}
    short = 0
    for gpu in expected.gpus:
        there = free.get(gpu.uuid or str(gpu.index))
        if there is not None and gpu.free is not None:
            short += max(0, gpu.free - there)
    return short
