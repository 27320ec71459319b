"""``llmchat doctor``: the machine as llmchat sees it, and what is wrong with it."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from pathlib import Path

import msgspec

from llmchat import __version__
from llmchat.commands import machine, words
from llmchat.commands.findings import Finding, look
from llmchat.commands.options import Options
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import gib
from llmchat.errors import LlmchatError
from llmchat.protocol import Ready
from llmchat.session import hub, paths
from llmchat.session.hardware import calibration, disk, probe
from llmchat.session.models import catalog
from llmchat.session.process.client import EngineClient
from llmchat.session.state import HubAccount

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


def run(options: Options) -> int:
    """1 when something stops llmchat from working, else 0."""
    report = asyncio.run(examine(start_engine=not options.quick))
    text = words.pretty(report) if options.json else describe(report)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    return 1 if any(finding.severity == "error" for finding in report.findings) else 0


async def examine(*, start_engine: bool) -> Report:
    """Look everything up; the engine imports torch meanwhile, which takes some seconds."""
    starting = asyncio.create_task(_engine()) if start_engine else None
    account = await asyncio.to_thread(hub.account)
    hardware = await asyncio.to_thread(probe.probe, _models())
    ready, trouble = await starting if starting else (None, ())
    if ready:
        hardware = calibration.with_cuda(hardware, ready.gpus)
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


async def _engine() -> tuple[Ready | None, tuple[Finding, ...]]:
    client = EngineClient()
    try:
        await client.start()
        return await client.wait_ready(), ()
    except LlmchatError as error:
        return None, (Finding(severity="error", text=f"{error.title}. {error.message}", remedy=error.remedy),)
    finally:
        await client.close()


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
