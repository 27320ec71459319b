"""What becomes of quantized checkpoints on machines with and without what they need."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from llmchat.domain.hardware import Gpu, HardwareProfile, Software
from llmchat.domain.memory import GIB
from llmchat.domain.model import ModelFacts, Module
from llmchat.domain.prequantized import RULES, Package, Resolution, resolve

ALL_OF_MXFP4: dict[str, Any] = {"triton": "3.7.0", "kernels": "0.18.2"}


def module(name: str, size: int, stored: int | None = None, active: int | None = None) -> Module:
    return Module(
        name=name,
        kind="layer",
        bytes=size,
        active_bytes=size // 4,
        largest_tensor=size // 2,
        linear_params=size // 2,
        linear_bytes=size,
        stored=stored,
        stored_active=active,
    )


def model(method: str | None, dtype: str = "bfloat16") -> ModelFacts:
    return ModelFacts(
        id="x",
        architecture="X",
        dtype=dtype,
        parameters=1,
        hidden_size=1,
        vocab_size=1,
        max_context=None,
        modules=(module("a", 40 * GIB, 10 * GIB, 3 * GIB), module("b", 2 * GIB)),
        prequantized=method,
    )


def machine(capability: tuple[int, int] | None = (9, 0), gpus: int = 1, **packages: str) -> HardwareProfile:
    gpu = Gpu(index=0, name="G", total=80 * GIB, free=80 * GIB, capability=capability)
    software = Software(accelerate="1.15.0", packages={name.replace("_", "-"): v for name, v in packages.items()})
    return HardwareProfile(
        ram_total=64 * GIB,
        ram_available=64 * GIB,
        gpus=tuple(replace(gpu, index=i) for i in range(gpus)),
        software=software,
    )


def kept(found: Resolution) -> bool:
    return not found.problem and found.model.weight_bytes == 12 * GIB


def expanded(found: Resolution) -> bool:
    return not found.problem and found.model.weight_bytes == 42 * GIB


def test_plain_weights_are_left_alone() -> None:
    plain = model(None)
    assert resolve(plain, machine(), True) == Resolution(model=plain)


def test_what_is_kept_takes_its_own_bytes() -> None:
    found = resolve(model("mxfp4"), machine(**ALL_OF_MXFP4), True)
    first, second = found.model.modules
    assert (first.bytes, first.active_bytes, first.largest_tensor) == (10 * GIB, 3 * GIB, 5 * GIB)
    assert (first.linear_params, first.linear_bytes) == (0, 0)
    assert second == module("b", 2 * GIB)
    assert "kept" in found.remarks[0] and not found.gpu_only


def test_active_bytes_follow_the_share_where_they_are_not_known_apart() -> None:
    facts = model("mxfp4")
    facts = replace(facts, modules=(module("a", 40 * GIB, 10 * GIB),))
    assert resolve(facts, machine(**ALL_OF_MXFP4), True).model.modules[0].active_bytes == 40 * GIB // 4 // 4


@pytest.mark.parametrize(
    ("hardware", "word"),
    [
        (machine((7, 0), **ALL_OF_MXFP4), "7.5 or more; GPU 0 has 7.0"),
        (machine(None, **ALL_OF_MXFP4), "not known"),
        (machine(gpus=0, **ALL_OF_MXFP4), "need a GPU"),
        (machine(triton="3.7.0"), "the package kernels"),
        (machine(triton="3.3.1", kernels="0.18.2"), "the package triton"),
        (machine(triton="3.4.0", kernels="0.19.0"), "before 0.19.0"),
        (machine(), "triton"),
    ],
)
def test_mxfp4_is_expanded_where_its_kernels_do_not_run(hardware: HardwareProfile, word: str) -> None:
    found = resolve(model("mxfp4"), hardware, bool(hardware.gpus))
    assert expanded(found)
    assert word in found.remarks[0] and "from 12.0 GiB to 42.0 GiB" in found.remarks[0]


def test_mxfp4_that_is_kept_cannot_be_computed_by_the_cpu() -> None:
    found = resolve(model("mxfp4"), machine(**ALL_OF_MXFP4), False)
    assert "CPU" in found.problem and found.remedy


@pytest.mark.parametrize("method", ["fp8", "mxfp8"])
def test_fp8_by_capability_and_kernels(method: str) -> None:
    assert kept(resolve(model(method), machine((8, 9), kernels="0.18.3"), True))
    assert expanded(resolve(model(method), machine((8, 6), kernels="0.18.3"), True))
    assert expanded(resolve(model(method), machine(gpus=0), False))
    lacking = resolve(model(method), machine((9, 0)), True)
    assert "kernels" in lacking.problem and "pip install 'kernels>=0.18.2,<0.19.0'" in lacking.remedy


@pytest.mark.parametrize(
    ("method", "packages"),
    [
        ("gptq", {"optimum": "1.24", "gptqmodel": "1.4.3"}),
        ("awq", {"gptqmodel": "5.0"}),
        ("bitsandbytes", {"bitsandbytes": "0.50.2"}),
        ("hqq", {"hqq": "0.2.1"}),
        ("torchao", {"torchao": "0.15.0"}),
        ("quanto", {"optimum": "2.0", "optimum_quanto": "0.2"}),
        ("auto-round", {"auto_round": "0.5"}),
        ("aqlm", {"aqlm": "1.1"}),
        ("vptq", {"vptq": "0.0.4"}),
        ("eetq", {"kernels": "0.18.2"}),
        ("fbgemm_fp8", {"fbgemm_gpu": "1.0"}),
    ],
)
def test_what_needs_a_package_says_which(method: str, packages: dict[str, Any]) -> None:
    assert kept(resolve(model(method), machine(**packages), True))
    lacking = resolve(model(method), machine(), True)
    for name in packages:
        assert name.replace("_", "-") in lacking.problem
        assert "pip install" in lacking.remedy and name.replace("_", "-") in lacking.remedy


def test_bitsandbytes_of_the_software_itself_counts() -> None:
    there = machine()
    there = replace(there, software=replace(there.software, bitsandbytes="0.46.1"))
    found = resolve(model("bitsandbytes"), there, True)
    assert kept(found) and found.gpu_only
    assert not resolve(model("bitsandbytes"), there, False).gpu_only


def test_compressed_tensors_end_up_in_16_bit() -> None:
    found = resolve(model("compressed-tensors"), machine(compressed_tensors="0.15.0"), True)
    assert expanded(found) and "first token" in found.remarks[0]
    assert resolve(model("compressed-tensors"), machine(compressed_tensors="0.14.9"), True).problem


@pytest.mark.parametrize(
    ("method", "hardware", "word"),
    [
        ("fbgemm_fp8", machine((8, 9), fbgemm_gpu="1.0"), "9.0 or more; GPU 0 has 8.9"),
        ("vptq", machine(gpus=0, vptq="0.0.4"), "GPU"),
        ("nvfp4", machine((10, 0)), "NVFP4"),
        ("never-heard-of", machine(), "never-heard-of"),
    ],
)
def test_what_cannot_be_loaded(method: str, hardware: HardwareProfile, word: str) -> None:
    found = resolve(model(method), hardware, bool(hardware.gpus))
    assert word in found.problem and found.problem.endswith(".") and found.remedy.endswith(".")


def test_spqr_wants_float16() -> None:
    there = machine(spqr_quant="0.2")
    there = replace(there, software=replace(there.software, packages={"spqr_quant": "0.2"}))
    assert "float16" in resolve(model("spqr"), there, True).problem
    assert kept(resolve(model("spqr", "float16"), there, True))


def test_versions() -> None:
    package = Package("triton", "3.4.0")
    for version, missing in {"3.4": False, "3.4.0+git": False, "3.10.1": False, "3.3.9": True, "": True}.items():
        assert package.missing(Software(packages={"triton": version})) is missing


def test_transformers_knows_the_same_methods() -> None:
    auto = pytest.importorskip("transformers.quantizers.auto")
    theirs = {name.removesuffix("_4bit").removesuffix("_8bit") for name in auto.AUTO_QUANTIZER_MAPPING}
    assert set(RULES) == theirs - {"gguf"}
