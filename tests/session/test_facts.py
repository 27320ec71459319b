"""What the caches of model facts and bandwidths depend on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from session_kit import GIB, MACHINE, model_folder

from llmchat.domain.hardware import Gpu, HardwareProfile
from llmchat.domain.memory import Account
from llmchat.domain.model import ModelFacts
from llmchat.protocol import Calibrated, Ready
from llmchat.session import calibration, facts, machine
from llmchat.session.engine_host import EngineHost
from llmchat.session.machine import Machine
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
