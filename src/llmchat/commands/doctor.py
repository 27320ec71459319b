"""``llmchat doctor``: the machine as llmchat sees it, and what is wrong with it."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from llmchat import __version__
from llmchat.commands import machine, stream, words
from llmchat.commands.findings import Finding, look
from llmchat.commands.options import Options
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import gib
from llmchat.errors import LlmchatError
from llmchat.protocol import Calibrate, Calibrated, Event, Progress, Ready
from llmchat.session import hub, paths
from llmchat.session.hardware import calibration, disk, probe
from llmchat.session.hardware.machine import as_engine_sees, large_file
from llmchat.session.models import catalog
from llmchat.session.process.client import EngineClient
from llmchat.session.state import HubAccount, SessionState, Step

NVIDIA_DRIVER = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Device files of the driver on Linux, and in WSL."""


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    purpose: str
    path: str
    free: int | None
    """Bytes free on its disk."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--json`` prints."""

    llmchat: str
    python: str
    platform: str
    hardware: HardwareProfile
    calibrated: bool
    """Whether the speeds in ``hardware`` were measured here."""
    measured_at: float | None
    """Unix seconds of the last measurement."""
    engine: Ready | None
    """None with ``--quick``, or when it could not start."""
    account: HubAccount
    folders: tuple[Folder, ...]
    terminal: dict[str, str]
    findings: tuple[Finding, ...]


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an engine that was started to be asked."""

    ready: Ready | None = None
    measured: Calibrated | None = None
    trouble: tuple[Finding, ...] = ()


NOT_KEPT = Finding(
    severity="warning",
    text="What was measured could not be kept: llmchat goes on with what it knew.",
    remedy="See whether the folder of converted models and facts can be written, and whether its disk is full.",
)


def run(options: Options) -> int:
    """1 when something stops llmchat from working, else 0."""
    report = asyncio.run(examine(start_engine=not options.quick, measure=options.measure))
    text = words.pretty(report) if options.json else describe(report)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    return 1 if any(finding.severity == "error" for finding in report.findings) else 0


async def examine(*, start_engine: bool, measure: bool = False) -> Report:
    """Look everything up; the engine imports torch meanwhile, which takes some seconds. ``measure``: and time the
    machine, in place of what was kept."""
    starting = asyncio.create_task(_engine(measure)) if start_engine else None
    account = await asyncio.to_thread(hub.account)
    hardware = await asyncio.to_thread(probe.probe, _models())
    engine = await starting if starting else Engine()
    ready, trouble = engine.ready, engine.trouble
    if ready:
        hardware = as_engine_sees(hardware, ready)
    if engine.measured:
        measured: Calibrated | None = calibration.save(hardware, engine.measured, anew=True)
        if calibration.load(hardware) != measured:
            trouble = (*trouble, NOT_KEPT)
    else:
        measured = calibration.load(hardware)
    if measured:
        hardware = calibration.merged(hardware, measured)
    seen = look(
        hardware,
        embedded=catalog.embedded_source() is not None,
        drivers_gpu=any(path.exists() for path in NVIDIA_DRIVER),
        account=account,
        warnings=ready.warnings if ready else (),
    )
    return Report(
        llmchat=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        hardware=hardware,
        calibrated=measured is not None,
        measured_at=measured.time if measured else None,
        engine=ready,
        account=account,
        folders=_folders(),
        terminal={"TERM": os.environ.get("TERM", ""), "COLORTERM": os.environ.get("COLORTERM", "")},
        findings=(*trouble, *seen),
    )


async def _engine(measure: bool) -> Engine:
    """What an engine says and, with ``measure``, measures; what goes wrong is a finding."""
    client = EngineClient()
    ready = None
    try:
        await client.start()
        ready = await client.wait_ready()
        return Engine(ready=ready, measured=await _measured(client) if measure else None)
    except LlmchatError as error:
        finding = Finding(severity="error", text=f"{error.title}. {error.message}", remedy=error.remedy)
        return Engine(ready=ready, trouble=(finding,))
    finally:
        await client.close()


async def _measured(client: EngineClient) -> Calibrated:
    """Takes some seconds, in which a terminal is told what is timed. Raises LlmchatError."""
    command = Calibrate(id=0, disk_file=await asyncio.to_thread(large_file, _checkpoints()))
    with stream.Progress() as line:

        def show(event: Event) -> None:
            if isinstance(event, Progress):
                line.show(SessionState(step=Step(stage=event.stage)))

        return await client.run(command, Calibrated, show)


def _checkpoints() -> Iterator[Path]:
    """Files of weights on the disks that models are loaded from."""
    yield from _models().glob("models--*/snapshots/*/*.safetensors")
    yield from (paths.cache_dir() / "models").glob("*/*.safetensors")


def _models() -> Path:
    """Where the hub's models are."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE)


def _folders() -> tuple[Folder, ...]:
    known = (
        ("hub models", _models()),
        ("converted models, facts", paths.cache_dir()),
        ("chats", paths.data_dir()),
        ("settings, themes", paths.config_dir()),
        ("logs", paths.log_dir()),
    )
    return tuple(Folder(purpose=purpose, path=str(path), free=disk.free(path)) for purpose, path in known)


def describe(report: Report) -> str:
    """For people."""
    hardware, software = report.hardware, report.hardware.software
    versions = {
        "torch": software.torch + (f" (CUDA {software.torch_cuda})" if software.torch_cuda else " (CPU build)"),
        "transformers": software.transformers,
        "accelerate": software.accelerate,
        "bitsandbytes": software.bitsandbytes or "not installed",
        "rmm": software.rmm or "not installed",
    }
    versions |= {name: version for name, version in software.packages.items() if name not in versions}
    account = report.account
    who = f"{account.name or 'nobody'} ({account.source or 'no token'})"
    parts = [
        f"llmchat {report.llmchat}, Python {report.python}, {report.platform}",
        "",
        "Machine",
        *machine.parts(hardware),
        "",
        "Measured speeds",
        *machine.speeds(hardware, report.measured_at),
        f"  llmchat doctor --measure {'does it again' if report.calibrated else 'does it now'}",
        "",
        "Packages",
        *(f"  {name:18} {version}" for name, version in versions.items()),
        "",
        "Hugging Face hub",
        f"  logged in as {who}" + (f"; {account.note}" if account.note else ""),
        "",
        "Folders",
        *(f"  {line}" for line in _folder_table(report.folders)),
        "",
        "What is wrong",
        *(_findings(report.findings) or ["  nothing found"]),
    ]
    return "\n".join(parts)


def _folder_table(folders: tuple[Folder, ...]) -> list[str]:
    rows = [(f.purpose, "unknown" if f.free is None else f"{gib(f.free)} free", f.path) for f in folders]
    return words.table(rows[0], rows[1:], left=1).splitlines()


def _findings(findings: tuple[Finding, ...]) -> list[str]:
    return [
        line
        for finding in findings
        for line in (
            f"  {finding.severity}: {finding.text}",
            *([f"    {finding.remedy}"] if finding.remedy else []),
        )
    ]
