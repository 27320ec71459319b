"""Measurements: plausible, bounded, and able to say that they do not know."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from llmchat.engine.hardware import calibrate, gpu_speeds
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


def test_a_process_of_its_own_measures_a_device() -> None:
    """With the CPU as the device: the same process, pipe and figures as for a GPU."""
    speeds = gpu_speeds.in_child(("cpu",), Task(1, lambda event: None))
    assert speeds
    assert set(speeds.read) == set(speeds.link) == set(speeds.matmul) == {"cpu"}
    assert 1e8 < speeds.read["cpu"] < 1e13 and 1e8 < speeds.link["cpu"] < 1e13
    assert 1e8 < speeds.matmul["cpu"] < 1e15 and 1e-6 < speeds.layer_overhead < 1


def test_a_device_that_is_not_there_is_not_known() -> None:
    assert gpu_speeds.in_child(("cuda:77",), Task(1, lambda event: None)) is None


def test_the_process_ends_when_the_task_is_stopped() -> None:
    task = Task(1, lambda event: None)
    task.cancel()
    started = time.monotonic()
    with pytest.raises(Cancelled):
        gpu_speeds.in_child(("cpu",), task)
    assert time.monotonic() - started < 1
