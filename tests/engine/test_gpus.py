"""What is told about GPUs, and work done in a forked child."""

from __future__ import annotations

import os
import signal
import time

import msgspec
import pytest
import torch

from llmchat.engine.hardware import forked, gpus
from llmchat.engine.hardware.forked import Forked
from llmchat.engine.hardware.gpus import CONCURRENT, HOST_TABLES, INTEGRATED, PAGEABLE, Found, Look

needs_fork = pytest.mark.skipif(not forked.possible(), reason="no fork here")


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({PAGEABLE: 1, CONCURRENT: 1, HOST_TABLES: 1, INTEGRATED: 0}, "coherent"),  # GH200
        ({PAGEABLE: 1, CONCURRENT: 1, HOST_TABLES: 0, INTEGRATED: 0}, "host-tables"),  # x86 with HMM
        ({PAGEABLE: 0, CONCURRENT: 1, HOST_TABLES: 0, INTEGRATED: 0}, "paged"),  # H200
        ({PAGEABLE: 0, CONCURRENT: 0, HOST_TABLES: 0, INTEGRATED: 0}, "none"),  # Windows
        ({PAGEABLE: 1, CONCURRENT: 1, HOST_TABLES: 1, INTEGRATED: 1}, "integrated"),  # GB10
        ({}, "none"),  # the driver's library cannot be asked
    ],
)
def test_managed_class(attributes: dict[int, int], kind: str) -> None:
    assert gpus.managed_class(attributes) == kind


def test_uuids_are_written_as_the_driver_writes_them() -> None:
    assert gpus.uuid("NVIDIA H200", "12-ab") == "GPU-12-ab"
    assert gpus.uuid("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "12-ab") == "MIG-12-ab"


@pytest.mark.parametrize(
    ("capability", "covered"),
    [((7, 0), False), ((7, 5), True), ((8, 6), True), ((8, 9), True), ((9, 0), True), ((10, 0), False)],
)
def test_architectures_that_a_torch_is_built_for(capability: tuple[int, int], covered: bool) -> None:
    assert gpus.covered(capability, ["sm_75", "sm_80", "sm_86", "sm_90a"]) is covered


def test_ptx_runs_on_what_is_newer() -> None:
    assert gpus.covered((10, 0), ["sm_80", "compute_90"])
    assert not gpus.covered((8, 0), ["compute_90"])


@pytest.mark.skipif(torch.version.cuda is not None, reason="for CPU builds of torch")
def test_a_cpu_build_sees_nothing_and_complains_about_nothing() -> None:
    assert Look().result() == Found()


@needs_fork
def test_a_childs_answer_comes_back() -> None:
    answer = Found(warnings=("x" * 200_000,), contexts={3: 5})
    assert Forked(lambda: answer, Found).result(20) == answer


@needs_fork
@pytest.mark.parametrize("end", ["raises", "is killed", "hangs"])
def test_a_child_that_fails_is_none_and_gone(end: str) -> None:
    def work() -> Found:
        if end == "raises":
            raise RuntimeError("no driver")
        if end == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
        return Found()

    child = Forked(work, Found)
    started = time.monotonic()
    assert child.result(0.3 if end == "hangs" else 20) is None
    assert time.monotonic() - started < 10
    with pytest.raises(ProcessLookupError):
        os.kill(child._pid, 0)


def test_found_survives_the_pipe() -> None:
    found = Found(contexts={0: 500 * 2**20})
    assert msgspec.json.decode(msgspec.json.encode(found), type=Found) == found
