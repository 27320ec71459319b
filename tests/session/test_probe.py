from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from fake_nvml import FakeGpu, FakeNvml, NVMLError, NVMLError_LibraryNotFound

from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.domain.memory import GIB
from llmchat.session.hardware import calibration, cgroup, probe
from llmchat.session.hardware import ram as memory
from llmchat.session.hardware import software as packages
from llmchat.session.hardware.cgroup import MemoryLimit
from llmchat.session.hardware.nvml import Nvml

FOUR = [FakeGpu(f"GPU-{letter}111-0000", 80 * GIB, used=i * GIB, reserved=GIB) for i, letter in enumerate("abcd")]
MIG = FakeGpu("GPU-m", 80 * GIB, instances=[FakeGpu("MIG-1", 10 * GIB), FakeGpu("MIG-2", 20 * GIB, used=GIB)])


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 GiB of RAM, 50 of it available."""
    import psutil

    memory = namedtuple("memory", "total available")(64 * GIB, 50 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)


# --- control groups


def v2(tmp_path: Path, files: dict[str, str], path: str = "/a/b") -> tuple[Path, Path]:
    proc = tree(tmp_path / "proc", {"self/cgroup": f"0::{path}\n"})
    return tree(tmp_path / "cg", {"cgroup.controllers": "cpu memory\n", **files}), proc


def test_without_control_groups(tmp_path: Path, machine: None) -> None:
    assert cgroup.memory_limit(tmp_path, tmp_path) is None
    assert cgroup.cpu_limit(tmp_path, tmp_path) is None
    assert memory.ram(tmp_path, tmp_path) == memory.Ram(total=64 * GIB, available=50 * GIB)


def test_version_2_asks_all_ancestors(tmp_path: Path, machine: None) -> None:
    cgroups, proc = v2(
        tmp_path,
        {
            "a/b/memory.max": "max\n",
            "a/b/memory.current": f"{GIB}\n",
            "a/memory.max": f"{32 * GIB}\n",
            "a/memory.current": f"{30 * GIB}\n",
            "a/memory.stat": f"anon 1\ninactive_file {4 * GIB}\nactive_file 9\n",
            "a/b/cpu.max": "max 100000\n",
            "a/cpu.max": "250000 100000\n",
        },
    )
    assert cgroup.memory_limit(cgroups, proc) == MemoryLimit(total=32 * GIB, available=6 * GIB)
    assert memory.ram(cgroups, proc) == memory.Ram(total=32 * GIB, available=6 * GIB, limit="cgroup")
    assert cgroup.cpu_limit(cgroups, proc) == 2.5
    assert probe.cores(cgroups, proc) == min(2, len(os.sched_getaffinity(0)))


def test_memory_high_counts_as_a_limit(tmp_path: Path) -> None:
    cgroups, proc = v2(
        tmp_path, {"a/b/memory.max": f"{8 * GIB}", "a/b/memory.high": f"{6 * GIB}", "a/b/memory.current": f"{GIB}"}
    )
    assert cgroup.memory_limit(cgroups, proc) == MemoryLimit(total=6 * GIB, available=5 * GIB)


def test_a_limit_above_the_machine_s_is_none(tmp_path: Path, machine: None) -> None:
    cgroups, proc = v2(tmp_path, {"a/b/memory.max": f"{99 * GIB}", "a/b/memory.current": f"{GIB}"})
    assert memory.ram(cgroups, proc).limit == ""


def test_a_full_group_leaves_nothing_and_never_less(tmp_path: Path, machine: None) -> None:
    cgroups, proc = v2(tmp_path, {"a/b/memory.max": f"{GIB}", "a/b/memory.current": f"{2 * GIB}"})
    assert memory.ram(cgroups, proc) == memory.Ram(total=GIB, available=0, limit="cgroup")


def test_a_container_that_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    files = {"memory.max": f"{4 * GIB}", "memory.current": "0", "cpu.max": "50000 100000"}
    cgroups, proc = v2(tmp_path, files, path="/system.slice/docker-1234.scope")
    assert cgroup.memory_limit(cgroups, proc) == MemoryLimit(total=4 * GIB, available=4 * GIB)
    assert probe.cores(cgroups, proc) == 1


def test_version_1(tmp_path: Path) -> None:
    proc = tree(tmp_path / "proc", {"self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/x/y\n1:name=systemd:/x\n"})
    cgroups = tree(
        tmp_path / "cg",
        {
            "memory/x/y/memory.limit_in_bytes": "9223372036854771712",
            "memory/x/y/memory.usage_in_bytes": "5",
            "memory/x/memory.limit_in_bytes": f"{16 * GIB}",
            "memory/x/memory.usage_in_bytes": f"{10 * GIB}",
            "memory/x/memory.stat": f"inactive_file 3\ntotal_inactive_file {2 * GIB}\n",
            "cpu,cpuacct/x/cpu.cfs_quota_us": "300000",
            "cpu,cpuacct/x/cpu.cfs_period_us": "100000",
            "cpu,cpuacct/cpu.cfs_quota_us": "-1",
            "cpu,cpuacct/cpu.cfs_period_us": "100000",
        },
    )
    assert cgroup.memory_limit(cgroups, proc) == MemoryLimit(total=16 * GIB, available=8 * GIB)
    assert cgroup.cpu_limit(cgroups, proc) == 3.0


def test_both_versions_at_once(tmp_path: Path) -> None:
    proc = tree(tmp_path / "proc", {"self/cgroup": "4:memory:/x\n0::/x\n"})
    cgroups = tree(
        tmp_path / "cg",
        {
            "memory/x/memory.limit_in_bytes": f"{3 * GIB}",
            "memory/x/memory.usage_in_bytes": "0",
            "unified/cgroup.controllers": "",
            "unified/x/cgroup.procs": "",
        },
    )
    assert cgroup.memory_limit(cgroups, proc) == MemoryLimit(total=3 * GIB, available=3 * GIB)


@pytest.mark.parametrize("text", ["", "rubbish", "0::", "x:y:z:w\n0::/../../etc\n", "4:memory"])
def test_rubbish_is_no_limit(tmp_path: Path, text: str) -> None:
    proc = tree(tmp_path / "proc", {"self/cgroup": text})
    cgroups = tree(tmp_path / "cg", {"cgroup.controllers": "", "cpu.max": "a b", "memory.max": "?"})
    assert cgroup.memory_limit(cgroups, proc) is None
    assert cgroup.cpu_limit(cgroups, proc) is None


# --- GPUs


def seen(chosen: str | None, *gpus: FakeGpu) -> list[str]:
    environment = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    return [device.uuid for device in Nvml(environment, FakeNvml(*gpus)).devices]


A, B, C, D = (gpu.uuid for gpu in FOUR)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (None, [A, B, C, D]),
        ("0,1,2,3", [A, B, C, D]),
        ("2,0", [C, A]),
        (" 3 , 1 ", [D, B]),
        ("", []),
        ("-1", []),
        ("1,-1,2", [B]),
        ("1,9,2", [B]),
        ("1,1", [B]),
        ("GPU-c111-0000,GPU-a", [C, A]),
        ("GPU-", []),
        ("NoDevFiles", []),
    ],
)
def test_cuda_visible_devices(chosen: str | None, expected: list[str]) -> None:
    assert seen(chosen, *FOUR) == expected


@pytest.mark.parametrize(
    ("chosen", "expected"), [(None, ["MIG-1"]), ("MIG-2", ["MIG-2"]), ("0", ["MIG-1"]), ("GPU-m", [])]
)
def test_mig_instances(chosen: str | None, expected: list[str]) -> None:
    assert seen(chosen, MIG) == expected


def test_whole_gpus_come_before_mig_instances() -> None:
    assert seen(None, FOUR[0], MIG) == [A]
    assert seen("1", FOUR[0], MIG) == ["MIG-1"]


def profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: FakeNvml) -> HardwareProfile:
    monkeypatch.setattr(probe, "Nvml", lambda: Nvml({}, library))
    return probe.probe(tmp_path / "not" / "yet", cgroups=tmp_path, proc=tmp_path)


def test_gpus_of_the_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = profile(monkeypatch, tmp_path, FakeNvml(*FOUR))
    assert [gpu.index for gpu in found.gpus] == [0, 1, 2, 3]
    gpu = found.gpus[2]
    assert (gpu.name, gpu.uuid, gpu.total, gpu.free) == ("Fake GPU", C, 80 * GIB, 77 * GIB)
    assert gpu.capability == (9, 0)
    assert (found.driver, found.driver_cuda, found.notes) == ("580.65", "13.0", ())
    assert found.disk_free is not None and found.disk_free <= shutil.disk_usage(tmp_path).total


def test_a_gpu_whose_memory_the_driver_does_not_tell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: None
) -> None:
    found = profile(monkeypatch, tmp_path, FakeNvml(FakeGpu("GPU-x", 0, name="GB10", refuses=True)))
    gpu = found.gpus[0]
    assert (gpu.free, gpu.total, gpu.capability, gpu.managed) == (50 * GIB, 64 * GIB, None, "integrated")
    assert found.ram_total == 64 * GIB


def test_a_mig_instance_of_unknown_size_is_unknown_until_cuda_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: None
) -> None:
    part = FakeGpu("MIG-77", 0, name="NVIDIA H100 80GB HBM3 MIG 3g.40gb", refuses=True)
    found = profile(monkeypatch, tmp_path, FakeNvml(FakeGpu("GPU-m", 80 * GIB, instances=[part])))
    gpu = found.gpus[0]
    assert (gpu.free, gpu.managed) == (None, "paged")
    assert "GPU 0 (NVIDIA H100 80GB HBM3 MIG 3g.40gb)" in found.notes[0]
    by_cuda = Gpu(index=0, name="H100", uuid="MIG-77", total=40 * GIB, free=39 * GIB, managed="paged")
    (seen,) = calibration.with_cuda(found, (by_cuda,)).gpus
    assert (seen.uuid, seen.total, seen.free) == ("MIG-77", 40 * GIB, 39 * GIB)


@pytest.mark.parametrize("uuid", ["MIG-1", "GPU-m"])
def test_cuda_s_name_of_a_mig_instance(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uuid: str) -> None:
    """Its own, or that of the whole GPU."""
    found = profile(monkeypatch, tmp_path, FakeNvml(MIG))
    by_cuda = Gpu(index=0, name="A100 MIG 1g.10gb", uuid=uuid, total=9 * GIB, free=9 * GIB, context=GIB)
    (gpu,) = calibration.with_cuda(found, (by_cuda,)).gpus
    assert (gpu.uuid, gpu.total, gpu.free, gpu.context) == ("MIG-1", 10 * GIB, 10 * GIB, GIB)


def test_the_fake_has_the_names_of_the_real_one() -> None:
    import pynvml

    for name in (name for name in vars(FakeNvml) if name.lower().startswith("nvml")):
        assert hasattr(pynvml, name), name
    assert issubclass(pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError)


def test_without_a_driver_and_with_a_broken_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    none = profile(monkeypatch, tmp_path, FakeNvml(broken=NVMLError_LibraryNotFound("no library")))
    assert (none.gpus, none.notes, none.driver) == ((), (), "")
    broken = profile(monkeypatch, tmp_path, FakeNvml(broken=NVMLError("Driver/library version mismatch")))
    assert broken.gpus == () and "version mismatch" in broken.notes[0]


# --- the rest


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor : 0\nmodel name\t: AMD  EPYC 9654\nmodel name : other\n", "AMD EPYC 9654"),
        ("Hardware : x\nModel : Raspberry Pi 5\n", "Raspberry Pi 5"),
    ],
)
def test_the_cpu_s_name(tmp_path: Path, text: str, name: str) -> None:
    assert probe.cpu_name(tree(tmp_path, {"cpuinfo": text})) == name


def test_a_cpu_without_a_name_has_an_architecture(tmp_path: Path) -> None:
    assert probe.cpu_name(tmp_path)


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ("__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n", "13.0"),
        ("cuda = '12.8'\n", "12.8"),
        ("cuda: Optional[str] = None\nhip: Optional[str] = '6.1'\n", None),
        ("", None),
    ],
)
def test_the_cuda_of_torch(tmp_path: Path, text: str, cuda: str | None) -> None:
    assert packages.cuda_in(tree(tmp_path, {"version.py": text}) / "version.py") == cuda


def test_versions_are_those_installed() -> None:
    found = packages.software()
    assert found.packages["bitsandbytes"] == importlib.metadata.version("bitsandbytes")
    assert "aqlm" not in found.packages
    assert found.torch == importlib.metadata.version("torch")
    assert found.transformers == importlib.metadata.version("transformers")


def test_a_probe_of_this_machine_imports_no_torch(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from llmchat.session.hardware.probe import probe; "
        "p = probe(Path(sys.argv[1])); assert 0 < p.ram_available <= p.ram_total, p; assert p.cores >= 1; "
        "assert not {'torch', 'transformers', 'textual'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=60)
