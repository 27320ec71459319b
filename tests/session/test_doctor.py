"""``doctor --measure``: the machine timed again, and what was kept replaced."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmchat.commands import doctor
from llmchat.commands.options import parse
from llmchat.domain.hardware import Gpu
from llmchat.errors import UsageError
from llmchat.protocol import Calibrated
from llmchat.session.hardware import calibration, machine
from llmchat.session.process import client

FAILING = """\
import os, sys
from llmchat import protocol
from llmchat.errors import Problem

def send(event):
    sys.stdout.buffer.write(protocol.encode(event))
    sys.stdout.buffer.flush()

send(protocol.Hello(pid=os.getpid()))
send(protocol.Ready(versions={}, gpus=()))
for line in sys.stdin.buffer:
    command = protocol.decode_command(line)
    problem = Problem(kind="OutOfMemory", title="Out of memory", message="No room.", remedy="Close some.")
    send(protocol.Failed(id=command.id, problem=problem))
"""


@pytest.fixture(autouse=True)
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted one: RAM at 20 GB/s, the disk at 1 GB/s, 1 ms a layer."""
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(client, "ENGINE", (sys.executable, str(Path(__file__).with_name("scripted_engine.py"))))


async def test_what_was_kept_is_replaced() -> None:
    first = await doctor.examine(start_engine=True)
    assert not first.calibrated and "--measure does it now" in doctor.describe(first)
    measured = Calibrated(
        id=1, gpus=(), ram_bandwidth=9e10, disk_bandwidth=9e9, layer_overhead=1e-4, cpu_matmul=4e11, time=1.7e9
    )
    calibration.save(first.hardware, measured)
    kept = await doctor.examine(start_engine=True)
    assert (kept.hardware.ram_bandwidth, kept.measured_at) == (9e10, 1.7e9)

    report = await doctor.examine(start_engine=True, measure=True)
    found = report.hardware
    assert (found.ram_bandwidth, found.disk_bandwidth, found.layer_overhead) == (2e10, 1e9, 1e-3)
    assert found.cpu_matmul == 4e11  # not measured this time
    again = await doctor.examine(start_engine=False)
    assert again.hardware.ram_bandwidth == 2e10
    assert "--measure does it again" in doctor.describe(again)
    assert not [finding for finding in report.findings if finding == doctor.NOT_KEPT]


async def test_what_cannot_be_kept_is_said(tmp_path: Path) -> None:
    await doctor.examine(start_engine=False)
    for folder in [path for path in tmp_path.rglob("*") if path.is_dir()]:
        (folder / "calibration.json").mkdir()
    report = await doctor.examine(start_engine=True, measure=True)
    assert report.hardware.ram_bandwidth == 2e10
    assert doctor.NOT_KEPT in report.findings


async def test_an_engine_that_cannot_measure_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    monkeypatch.setattr(client, "ENGINE", (sys.executable, str(script)))
    report = await doctor.examine(start_engine=True, measure=True)
    assert report.engine is not None and not report.calibrated
    said = [(f.text, f.remedy) for f in report.findings if f.severity == "error"]
    assert ("Out of memory. No room.", "Close some.") in said


def test_measuring_needs_an_engine() -> None:
    assert parse(["doctor", "--measure"]).measure
    with pytest.raises(UsageError, match="--measure needs one"):
        parse(["doctor", "--quick", "--measure"])


def test_the_later_of_two_measurements_counts() -> None:
    gpu = Gpu(index=0, name="G", total=1, free=None, read_bandwidth=4e12, matmul=6e14)
    before = Calibrated(id=1, gpus=(gpu,), ram_bandwidth=9e10, disk_bandwidth=3e9, layer_overhead=1e-4, time=1.0)
    slower = replace(gpu, read_bandwidth=3e12, matmul=None, link_bandwidth=5e10)
    now = replace(before, gpus=(slower,), ram_bandwidth=2e10, disk_bandwidth=None, layer_overhead=2e-4, time=2.0)
    assert calibration.newer(before, now) == replace(now, disk_bandwidth=3e9, gpus=(replace(slower, matmul=6e14),))


def test_the_disk_is_timed_with_the_largest_file(tmp_path: Path) -> None:
    sizes = {"a": machine.CALIBRATION_FILE_MIN, "b": 2 * machine.CALIBRATION_FILE_MIN, "c": 5}
    for name, size in sizes.items():
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    assert machine.large_file(tmp_path.iterdir()) == str(tmp_path / "b")
    assert machine.large_file([tmp_path / "c", tmp_path / "none"]) == ""
