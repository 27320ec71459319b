"""Measurements: plausible, bounded, and able to say that they do not know."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from llmchat.engine import calibrate
from llmchat.engine.task import Task
from llmchat.errors import Cancelled
from llmchat.protocol import Calibrate


def test_without_a_gpu(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(bytes(32 * 2**20))
    started = time.monotonic()
    measured = calibrate.calibrate(Calibrate(id=3, disk_file=str(file)), Task(3, lambda event: None), ())
    assert time.monotonic() - started < 20
    assert (measured.id, measured.gpus) == (3, ())
    assert measured.ram_bandwidth and 5e8 < measured.ram_bandwidth < 5e12
    assert measured.disk_bandwidth and measured.disk_bandwidth > 1e6
    assert measured.ram_bandwidth_16bit and 1e8 < measured.ram_bandwidth_16bit < 5e12
    assert measured.cpu_matmul and 1e9 < measured.cpu_matmul < 1e15
    assert measured.cpu_matmul_16bit and 1e8 < measured.cpu_matmul_16bit < 1e15
    assert abs(measured.time - time.time()) < 60
    assert measured.layer_overhead and 1e-6 < measured.layer_overhead < 0.1


@pytest.mark.parametrize("content", [None, b"too small"])
def test_a_file_that_cannot_be_timed(content: bytes | None, tmp_path: Path) -> None:
    if content:
        (tmp_path / "file").write_bytes(content)
    assert calibrate.disk_bandwidth(tmp_path / "file") is None


def test_a_disk_is_read_at_most_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sparse"
    with file.open("wb") as handle:
        handle.truncate(4 * 2**30)
    started = time.monotonic()
    assert calibrate.disk_bandwidth(file)
    assert time.monotonic() - started < 5


def test_stopped_between_two_measurements() -> None:
    task = Task(1, lambda event: task.cancel())
    with pytest.raises(Cancelled):
        calibrate.calibrate(Calibrate(id=1), task, ())
