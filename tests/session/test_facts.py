"""What the caches of model facts and bandwidths depend on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from session_kit import GIB, MACHINE, model_folder

from llmchat.domain import planner
from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.domain.memory import Account
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Precision, Request
from llmchat.protocol import Calibrate, Calibrated, Ready
from llmchat.session.hardware import calibration, machine
from llmchat.session.hardware.footprint import footprint
from llmchat.session.hardware.machine import Machine
from llmchat.session.models import facts
from llmchat.session.process.engine_host import EngineHost
from llmchat.session.state import GpuSample, MemorySample
from llmchat.session.store import Store

FACTS = ModelFacts(
    id="a",
    architecture="LlamaForCausalLM",
    dtype="bfloat16",
    parameters=1,
    hidden_size=1,
    vocab_size=1,
    max_context=1,
    modules=(),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path))
    return tmp_path


def gpu(index: int, uuid: str, free: int | None, **more: object) -> Gpu:
    return Gpu(index=index, name="G", uuid=uuid, total=16 * GIB, free=free, **more)  # type: ignore[arg-type]


# --- facts ---------------------------------------------------------------------------------------------------
def test_facts_come_back_under_the_name_asked_for(home: Path) -> None:
    folder = model_folder(home)
    assert facts.load(folder, "a", "") is None
    facts.save(folder, FACTS)
    assert facts.load(folder, "b", "main") == replace(FACTS, id="b", revision="main")


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "chat_template.jinja"])
def test_a_changed_description_is_another_model(home: Path, name: str) -> None:
    folder = model_folder(home)
    before = facts.key(folder)
    (folder / name).write_text('{"changed": true}')
    assert facts.key(folder) != before


def test_a_changed_header_is_another_model_but_changed_numbers_are_not(home: Path) -> None:
    folder = model_folder(home)
    before = facts.key(folder)
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + b"\xff")
    assert facts.key(folder) == before
    weights.write_bytes(content.replace(b"BF16", b"FP32"))
    assert facts.key(folder) != before


def test_weights_that_arrive_later_do_not_change_a_hub_snapshot(home: Path) -> None:
    (home / "snapshots").mkdir()
    folder = model_folder(home / "snapshots", "0123abc")
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.unlink()
    before = facts.key(folder)
    weights.write_bytes(content)
    assert facts.key(folder) == before


def test_damaged_files_are_no_facts(home: Path) -> None:
    folder = model_folder(home)
    facts.save(folder, FACTS)
    (kept,) = (home / "cache" / "facts").glob("*.json")
    kept.write_text("{half")
    assert facts.load(folder, "a", "") is None
    (folder / "model.safetensors").write_bytes(b"\x05")
    assert len(facts.key(folder)) == 32


# --- bandwidths ----------------------------------------------------------------------------------------------
def test_a_machine_is_the_same_whatever_is_free_on_it() -> None:
    profile = replace(MACHINE, gpus=(gpu(0, "GPU-a", 8 * GIB),))
    busy = replace(profile, ram_available=1, gpus=(gpu(0, "GPU-a", 1),), ram_bandwidth=None)
    assert calibration.identity(profile) == calibration.identity(busy)
    assert calibration.identity(profile) != calibration.identity(replace(profile, driver="other"))
    assert calibration.identity(profile) != calibration.identity(replace(profile, gpus=()))


def test_bandwidths_are_kept_by_machine_and_merged() -> None:
    profile = replace(MACHINE, ram_bandwidth=None, layer_overhead=None, gpus=(gpu(0, "GPU-a", 8 * GIB),))
    measured = Calibrated(
        id=1,
        gpus=(gpu(0, "a", 16 * GIB, read_bandwidth=1e12, link_bandwidth=5e10),),
        ram_bandwidth=3e10,
        disk_bandwidth=None,
        layer_overhead=1e-4,
    )
    assert calibration.load(profile) is None
    calibration.save(profile, measured)
    assert calibration.load(replace(profile, driver="other")) is None
    found = calibration.load(replace(profile, ram_available=1))
    assert found == measured
    merged = calibration.merged(profile, measured)
    assert (merged.ram_bandwidth, merged.layer_overhead) == (3e10, 1e-4)
    assert merged.disk_bandwidth == MACHINE.disk_bandwidth
    assert merged.gpus[0].read_bandwidth == 1e12
    assert merged.gpus[0].free == 8 * GIB


def test_cuda_says_which_gpus_there_are() -> None:
    profile = replace(MACHINE, gpus=(gpu(0, "GPU-a", 1 * GIB), gpu(1, "GPU-b", 2 * GIB)))
    seen = calibration.with_cuda(profile, (gpu(0, "B", None, managed="coherent"),))
    assert [(g.index, g.uuid, g.free, g.managed) for g in seen.gpus] == [(0, "GPU-b", 2 * GIB, "coherent")]
    assert calibration.with_cuda(profile, ()) == profile


# --- the machine ---------------------------------------------------------------------------------------------
def real_machine(monkeypatch: pytest.MonkeyPatch, *profiles: HardwareProfile) -> tuple[Machine, EngineHost]:
    """A machine whose probe gives these profiles in turn, the last one for ever."""
    left = list(profiles)
    monkeypatch.setattr(machine, "_probe", lambda: left.pop(0) if len(left) > 1 else left[0])
    engine = EngineHost(Store())
    return Machine(engine, None, None), engine


async def test_a_probed_machine_is_completed_by_engine_and_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = replace(MACHINE, ram_bandwidth=None, gpus=(gpu(0, "GPU-a", 4 * GIB),))
    there, engine = real_machine(monkeypatch, profile)
    engine._ready = Ready(
        versions={"torch": "2.13.0", "cuda": "13.0", "bitsandbytes": "0.50.2"},
        gpus=(gpu(0, "a", None, capability=(9, 0)),),
        warnings=("bitsandbytes cannot run its kernels here: no image",),
    )
    found = await there.profile({"cuda:0": Account(weights=2 * GIB), "cpu": Account(compute=GIB)})
    assert found.gpus[0].free == 6 * GIB
    assert found.gpus[0].capability == (9, 0)
    assert found.ram_available == MACHINE.ram_available + GIB
    assert (found.software.torch_cuda, found.software.bitsandbytes) == ("13.0", None)


async def test_settling_waits_for_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_free(free: int) -> HardwareProfile:
        return replace(MACHINE, gpus=(gpu(0, "GPU-a", free),))

    there, _ = real_machine(monkeypatch, with_free(GIB), with_free(4 * GIB), with_free(8 * GIB))
    assert await there.settle(with_free(8 * GIB)) == 0
    monkeypatch.setattr(machine, "STEADY_SECONDS", 0.15)
    there, _ = real_machine(monkeypatch, with_free(5 * GIB))
    assert await there.settle(with_free(8 * GIB)) == 3 * GIB


async def test_replanning_takes_the_last_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    there, _ = real_machine(monkeypatch, MACHINE)
    known = replace(MACHINE, gpus=(gpu(0, "GPU-a", 16 * GIB), gpu(1, "GPU-b", None)))
    taken = Account(weights=6 * GIB, kv_cache=GIB, other=5 * GIB, free=4 * GIB)
    sample = MemorySample(
        time=0.0,
        gpus=(GpuSample(index=0, name="G", account=taken), GpuSample(index=1, name="G", account=taken)),
        ram=Account(compute=2 * GIB, free=3 * GIB),
    )
    found = there.replanning(known, sample)
    assert [g.free for g in found.gpus] == [11 * GIB, None]
    assert found.ram_available == 5 * GIB
    assert Machine(EngineHost(Store()), MACHINE, None).replanning(known, sample) == known


def test_a_hardware_file_that_is_none(home: Path) -> None:
    from llmchat.errors import UsageError

    path = home / "machine.json"
    with pytest.raises(UsageError, match="No such file"):
        machine.read_profile(path)
    path.write_text(json.dumps({"ram_total": "much"}))
    with pytest.raises(UsageError, match=r"ram_total"):
        machine.read_profile(path)


# --- measuring again -----------------------------------------------------------------------------------------
def speeds(**changes: float | None) -> Calibrated:
    usual: dict[str, float | None] = {"ram_bandwidth": 2e10, "disk_bandwidth": None, "layer_overhead": 2e-4}
    return Calibrated(id=1, gpus=(), time=1.0, **(usual | changes))  # type: ignore[arg-type]


def test_of_two_measurements_the_faster_counts() -> None:
    """A machine that others load is measured too slow, never too fast."""
    profile = replace(MACHINE, ram_bandwidth=None, disk_bandwidth=None, layer_overhead=None)
    calibration.save(profile, speeds(cpu_matmul=4e11))
    best = calibration.save(profile, speeds(ram_bandwidth=1e10, disk_bandwidth=1e9, layer_overhead=1e-4))
    assert calibration.load(profile) == best
    assert (best.ram_bandwidth, best.disk_bandwidth, best.layer_overhead) == (2e10, 1e9, 1e-4)
    assert best.cpu_matmul == 4e11


def test_other_libraries_are_another_machine() -> None:
    software = replace(MACHINE.software, transformers="5.25.0")
    assert calibration.identity(MACHINE) != calibration.identity(replace(MACHINE, software=software))


async def test_the_disk_is_measured_once_a_file_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    profile = replace(MACHINE, disk_bandwidth=None)
    there, engine = real_machine(monkeypatch, profile)
    asked: list[Calibrate] = []

    async def run(command: Calibrate, result: object, on_event: object) -> Calibrated:
        asked.append(command)
        return speeds(disk_bandwidth=3e9)

    monkeypatch.setattr(engine, "run", run)
    assert await there.calibrated(profile, tmp_path, lambda event: None) == profile
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(machine.CALIBRATION_FILE_MIN)
    found = await there.calibrated(profile, tmp_path, lambda event: None)
    assert found.disk_bandwidth == 3e9
    assert await there.calibrated(found, tmp_path, lambda event: None) == found
    assert [command.disk_file for command in asked] == [str(tmp_path / "model.safetensors")]


async def test_the_running_engine_s_own_ram_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the first load, too, when no model is held: the planner counts a whole engine process for every plan."""
    profile = replace(MACHINE, ram_total=1024 * GIB, ram_available=GIB)
    there, _ = real_machine(monkeypatch, profile)
    monkeypatch.setattr(EngineHost, "pid", os.getpid())
    own = footprint(os.getpid())
    found = await there.profile()
    assert own is not None and own.private > 0
    assert found.ram_available - GIB == pytest.approx(own.private, rel=0.2)


def test_a_container_of_two_gib_holds_the_small_model() -> None:
    """1.15 GiB are free beside an engine of 0.4 GiB."""
    data = Path(__file__).parents[1] / "data" / "models" / "smollm2-135m-instruct.json"
    small = msgspec.json.decode(data.read_bytes(), type=ModelFacts)
    container = replace(MACHINE, ram_total=2 * GIB, ram_available=int(1.15 * GIB))
    back = container.returning({"cpu": Account(compute=int(0.4 * GIB))})
    assert planner.rank(small, back, Request()).best is not None
    assert planner.rank(small, container, Request(precision=Precision.PUBLISHED)).best is None
