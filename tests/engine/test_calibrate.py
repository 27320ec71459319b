"""Measurements: plausible, bounded, and able to say that they do not know."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from llmchat.domain.hardware import Gpu
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
    assert measured.cpu_layer_overhead == measured.layer_overhead


@pytest.mark.parametrize("answers", [True, False])
def test_with_a_gpu_both_overheads_are_told_apart(answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a GPU that could not be measured gets no figure of the CPU's."""
    one = {"cuda:1": 3e9}
    speeds = gpu_speeds.GpuSpeeds(read=one, link=one, pageable={"cuda:1": 1e9}, matmul=one, layer_overhead=7e-4)
    monkeypatch.setattr(gpu_speeds, "in_child", lambda devices, task: speeds if answers else None)
    monkeypatch.setattr(calibrate, "layer_overhead", lambda device, dtype: 2e-4)
    gpu = Gpu(index=1, name="G", total=2**30, free=None, context=5)
    measured = calibrate.calibrate(Calibrate(id=1), Task(1, lambda event: None), (gpu,))
    assert (measured.layer_overhead, measured.cpu_layer_overhead) == (7e-4 if answers else None, 2e-4)
    assert measured.gpus[0].context == 5
    assert measured.gpus[0].pageable_bandwidth == (1e9 if answers else None)


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
    assert set(speeds.read) == set(speeds.link) == set(speeds.pageable) == set(speeds.matmul) == {"cpu"}
    assert all(1e8 < rates["cpu"] < 1e13 for rates in (speeds.read, speeds.link, speeds.pageable))
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
