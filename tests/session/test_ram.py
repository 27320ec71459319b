"""RAM that is RAM: without the memory of GPUs, without swap, and what of it can be pinned."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_nvml import FakeGpu, FakeNvml
from test_probe import tree

from llmchat.domain.memory import GIB
from llmchat.session.hardware import probe, ram
from llmchat.session.hardware.nvml import Nvml

GH200 = FakeGpu("GPU-g", 96 * GIB, name="NVIDIA GH200 480GB", addressing=2, node=1)


def node(number: int, total: int, free: int, files: int = 0) -> str:
    sizes = {"MemTotal": total, "MemFree": free, "Active(file)": files // 4, "Inactive(file)": files * 3 // 4}
    lines = [f"Node {number} {name}:  {size // 1024} kB" for name, size in sizes.items()]
    return "\n".join([*lines, f"Node {number} HugePages_Total:     0", ""])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Grace with 480 GiB, its GPU's 96 as node 1, and 128 behind CXL as node 9; the system counts them all."""
    import psutil

    memory = SimpleNamespace(total=704 * GIB, available=600 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    return tree(
        tmp_path / "sys",
        {
            "devices/system/node/has_cpu": "0\n",
            "devices/system/node/has_memory": "0-1,9\n",
            "devices/system/node/node0/meminfo": node(0, 480 * GIB, 150 * GIB, 200 * GIB),
            "devices/system/node/node1/meminfo": node(1, 96 * GIB, 95 * GIB),
            "devices/system/node/node9/meminfo": node(9, 128 * GIB, 128 * GIB),
        },
    )


def nodes(system: Path, *gpus: FakeGpu, visible: str | None = None) -> frozenset[int]:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return ram.gpu_nodes(Nvml(environment, FakeNvml(*gpus)), system)


def test_the_memory_of_a_coherent_gpu_is_not_ram(machine: Path, tmp_path: Path) -> None:
    assert nodes(machine, GH200) == {1}
    found = ram.ram(tmp_path, tmp_path, machine, nodes(machine, GH200))
    assert found == ram.Ram(total=608 * GIB, available=478 * GIB)


def test_a_hidden_gpu_s_memory_is_not_ram_either(machine: Path) -> None:
    assert nodes(machine, GH200, visible="") == {1}


def test_without_the_driver_s_word_all_nodes_without_cpus_are_the_gpu_s(machine: Path) -> None:
    for silent in (
        FakeGpu("GPU-g", 96 * GIB, name="NVIDIA GH200 480GB", refuses=True),
        FakeGpu("GPU-h", 96 * GIB, name="a GPU of tomorrow", addressing=2),
    ):
        assert nodes(machine, silent) == {1, 9}


@pytest.mark.parametrize("name", ["NVIDIA H200", "NVIDIA GB10"])
def test_memory_behind_cxl_is_ram(machine: Path, tmp_path: Path, name: str) -> None:
    """On a machine without such a GPU, nodes without CPUs are RAM like any other."""
    integrated = name == "NVIDIA GB10"
    gpu = FakeGpu("GPU-h", 0 if integrated else 141 * GIB, name=name, refuses=integrated, addressing=1)
    assert nodes(machine, gpu) == frozenset()
    assert ram.ram(tmp_path, tmp_path, machine).total == 704 * GIB


def test_nodes_that_cannot_be_read_change_nothing(machine: Path, tmp_path: Path) -> None:
    (machine / "devices/system/node/node0/meminfo").unlink()
    assert ram.ram(tmp_path, tmp_path, machine, frozenset({1})).total == 704 * GIB


def test_the_profile_of_a_coherent_machine(machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "Nvml", lambda: Nvml({}, FakeNvml(GH200)))
    found = probe.probe(tmp_path, cgroups=tmp_path, proc=tmp_path, system=machine)
    assert (found.gpus[0].managed, found.gpus[0].total, found.ram_total) == ("coherent", 96 * GIB, 608 * GIB)
    assert any("1 NUMA node of GPU memory" in note for note in found.notes)


@pytest.mark.parametrize(
    ("gpu", "kind"),
    [
        (FakeGpu("GPU-a", 80 * GIB), "paged"),
        (FakeGpu("GPU-a", 80 * GIB, addressing=1), "host-tables"),
        (FakeGpu("GPU-a", 96 * GIB, addressing=2), "coherent"),
        (FakeGpu("GPU-a", 0, name="NVIDIA GB10", refuses=True), "integrated"),
        (FakeGpu("GPU-a", 0, name="Orin (nvgpu)"), "integrated"),
        (FakeGpu("GPU-a", 64 * GIB, name="a GPU that has all of the RAM"), "integrated"),
        (FakeGpu("GPU-a", 192 * GIB, name="NVIDIA GB200"), "coherent"),
    ],
)
def test_the_class_of_a_gpu_by_the_driver(gpu: FakeGpu, kind: str) -> None:
    nvml = Nvml({}, FakeNvml(gpu))
    assert nvml.managed(nvml.devices[0], 64 * GIB) == kind


def test_swap_is_told_apart(tmp_path: Path) -> None:
    proc = tree(tmp_path, {"meminfo": "MemTotal: 1024 kB\nSwapTotal:       2097148 kB\nSwapFree: 5 kB\n"})
    assert ram.swap_total(proc) == 2097148 * 1024


@pytest.mark.parametrize(
    ("platform", "kernel", "limit"),
    [
        ("linux", "6.8.0-generic", None),
        ("linux", "6.6.87.2-microsoft-standard-WSL2", 512 * 2**20),
        ("win32", "", 32 * GIB),
    ],
)
def test_what_can_be_pinned(tmp_path: Path, platform: str, kernel: str, limit: int | None) -> None:
    proc = tree(tmp_path, {"sys/kernel/osrelease": kernel})
    assert ram.pinned_limit(64 * GIB, platform, proc) == limit
