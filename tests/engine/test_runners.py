"""Every runner on the CPU: the greedy tokens of plain transformers with the same quantization."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, MixtralConfig

from llmchat.domain.memory import Account
from llmchat.domain.model import ModelFacts, Module
from llmchat.domain.plan import Plan, Precision
from llmchat.engine import placement
from llmchat.engine.hardware import memory
from llmchat.engine.model.architecture import read_config
from llmchat.engine.model.inspect import inspect
from llmchat.engine.runners import RUNNERS, Job, Running
from llmchat.engine.task import Task
from llmchat.errors import Cancelled, InternalError, ModelError, UsageError
from llmchat.protocol import AnyEvent, Progress

from .architectures import CONFIGS
from .conftest import MakePlan

PROMPT = torch.arange(5, 25).unsqueeze(0)
TOKENS = 24

QUANTIZATION = {
    Precision.PUBLISHED: lambda: None,
    Precision.INT8: lambda: BitsAndBytesConfig(load_in_8bit=True),
    Precision.INT4: lambda: BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    ),
}


def greedy(model: torch.nn.Module) -> list[int]:
    with torch.inference_mode():
        output = model.generate(PROMPT, max_new_tokens=TOKENS, do_sample=False, eos_token_id=None)  # type: ignore[operator]
    return list(output[0, PROMPT.shape[1] :].tolist())


def plain(folder: Path, precision: Precision = Precision.PUBLISHED) -> list[int]:
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, device_map="cpu", quantization_config=QUANTIZATION[precision]()
    )
    return greedy(model)


def run(folder: Path, plan: Plan, task: Task | None = None) -> Running:
    return RUNNERS[plan.runner](Job(folder, plan, task or Task(1, lambda event: None), {}))


def alternate(*devices: str) -> object:
    """Layers in turn on these devices, the rest on the first."""

    def where(module: Module) -> str:
        if module.kind != "layer":
            return devices[0]
        return devices[int(module.name.rsplit(".", 1)[1]) % len(devices)]

    return where


def all_but_layers_on(rest: str, layers: str) -> object:
    return lambda module: layers if module.kind == "layer" else rest


@pytest.mark.parametrize("precision", list(Precision))
def test_resident_on_the_cpu(
    tiny: Path, tiny_facts: ModelFacts, make_plan: MakePlan, precision: Precision
) -> None:
    running = run(tiny, make_plan(tiny_facts, precision=precision))
    tokens = greedy(running.model)
    assert tokens == plain(tiny, precision)
    assert len(set(tokens)) > 4


def test_quantized_weights_take_the_bytes_that_bitsandbytes_promises(
    tiny: Path, tiny_facts: ModelFacts, make_plan: MakePlan
) -> None:
    linear = sum(module.linear_params for module in tiny_facts.modules)
    rest = tiny_facts.weight_bytes - 2 * linear
    int8 = memory.weights(run(tiny, make_plan(tiny_facts, precision=Precision.INT8)).model)["cpu"]
    int4 = memory.weights(run(tiny, make_plan(tiny_facts, precision=Precision.INT4)).model)["cpu"]
    assert linear <= int8 - rest <= linear * 1.1  # one float32 scale a row
    scales = int4 - rest - linear // 2 - linear // 64  # beside one byte for each 64 weights
    assert 0 < scales <= 7 * 4 * 1200  # code tables of 1 KiB and a little for each of the 28 matrices


@pytest.mark.parametrize(
    "where",
    [
        alternate("cpu", "disk"),
        all_but_layers_on("cpu", "disk"),
        all_but_layers_on("disk", "cpu"),
        lambda m: "disk",
    ],
    ids=["alternating", "layers on disk", "the rest on disk", "all on disk"],
)
def test_offloaded_to_disk(tiny: Path, tiny_facts: ModelFacts, make_plan: MakePlan, where: object) -> None:
    plan = make_plan(tiny_facts, where, runner="offloaded")
    running = run(tiny, plan)
    assert greedy(running.model) == plain(tiny)
    in_ram = sum(m.bytes for m in tiny_facts.modules if plan.placement[m.name] == "cpu")
    buffers = sum(buffer.nbytes for buffer in running.model.buffers())
    assert in_ram <= memory.weights(running.model).get("cpu", 0) <= in_ram + buffers
    for close in running.closers:
        close()


def test_offloaded_to_ram(tiny: Path, tiny_facts: ModelFacts, make_plan: MakePlan) -> None:
    """The mechanism of ram-offload, with the CPU as the executing device."""
    running = run(tiny, make_plan(tiny_facts, runner="offloaded"))
    assert {p.device.type for p in running.model.parameters()} == {"meta"}
    assert greedy(running.model) == plain(tiny)
    assert memory.weights(running.model)["cpu"] == tiny_facts.weight_bytes


def test_offloaded_experts_are_written_once_and_removed(tmp_path: Path, make_plan: MakePlan) -> None:
    """Fused experts are not as on disk, so accelerate writes them anew; that folder goes with the model."""
    config: MixtralConfig = CONFIGS["mixtral"]
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(tmp_path / "mixtral")
    facts = inspect(tmp_path / "mixtral", "mixtral")
    running = run(tmp_path / "mixtral", make_plan(facts, alternate("cpu", "disk"), runner="offloaded"))
    folder = Path(running.closers[0].args[0])  # type: ignore[attr-defined]
    assert list(folder.glob("*experts*"))
    assert greedy(running.model) == plain(tmp_path / "mixtral")
    running.closers[0]()
    assert not folder.exists()


@pytest.mark.parametrize("name", ["llama-tied", "gemma3", "gpt2", "qwen3-next"])
def test_other_architectures_offload_too(name: str, tmp_path: Path, make_plan: MakePlan) -> None:
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(CONFIGS[name], dtype=torch.bfloat16).save_pretrained(tmp_path / name)
    facts = inspect(tmp_path / name, name)
    expected = plain(tmp_path / name)
    assert greedy(run(tmp_path / name, make_plan(facts)).model) == expected
    disk = run(tmp_path / name, make_plan(facts, alternate("cpu", "disk"), runner="offloaded"))
    assert greedy(disk.model) == expected


@pytest.mark.parametrize("precision", [Precision.INT8, Precision.INT4])
def test_quantized_weights_are_not_offloaded(
    tiny: Path, tiny_facts: ModelFacts, make_plan: MakePlan, precision: Precision
) -> None:
    with pytest.raises(UsageError, match="cannot be offloaded"):
        run(tiny, make_plan(tiny_facts, alternate("cpu", "disk"), runner="offloaded", precision=precision))


def test_resident_refuses_weights_that_lie_elsewhere(
    tiny: Path, tiny_facts: ModelFacts, make_plan: MakePlan
) -> None:
    with pytest.raises(InternalError, match="cpu, disk"):
        run(tiny, make_plan(tiny_facts, alternate("cpu", "disk")))


@pytest.mark.skipif(torch.cuda.is_available(), reason="the refusal of a machine without a GPU")
def test_managed_refuses_without_a_gpu(tiny: Path, tiny_facts: ModelFacts, make_plan: MakePlan) -> None:
    with pytest.raises(UsageError, match="no GPU"):
        run(tiny, make_plan(tiny_facts, lambda module: "cuda:0", runner="managed", main="cuda:0"))


def test_progress_counts_the_bytes_of_the_model(tiny: Path, tiny_facts: ModelFacts, make_plan: MakePlan) -> None:
    plan = make_plan(tiny_facts)
    sizes = placement.check(read_config(tiny), plan, tiny_facts)
    events: list[AnyEvent] = []
    RUNNERS["resident"](Job(tiny, plan, Task(7, events.append), sizes))
    steps = [event for event in events if isinstance(event, Progress)]
    assert {(step.id, step.stage, step.unit) for step in steps} == {(7, "Reading weights", "bytes")}
    assert steps[0].done == 0
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert steps[-1].done == steps[-1].total == tiny_facts.weight_bytes


def test_a_load_is_stopped_between_two_tensors(tiny: Path, tiny_facts: ModelFacts, make_plan: MakePlan) -> None:
    task = Task(1, lambda event: task.cancel())
    with pytest.raises(Cancelled):
        run(tiny, make_plan(tiny_facts), task)


@pytest.mark.parametrize("change", ["missing", "shape"])
def test_weights_of_another_model(change: str, tiny: Path, tmp_path: Path, make_plan: MakePlan) -> None:
    folder = shutil.copytree(tiny, tmp_path / "copy")
    facts = inspect(folder, "copy")
    victim = "model.layers.1.mlp.up_proj.weight"
    name = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"][victim]
    tensors = load_file(folder / name)
    tensors[victim] = tensors[victim][:-1].contiguous()
    if change == "missing":
        del tensors[victim]
    save_file(tensors, folder / name, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="copy") as caught:
        run(folder, make_plan(facts))
    assert victim in caught.value.message


def test_a_plan_must_cover_this_model(tiny: Path, tiny_facts: ModelFacts, make_plan: MakePlan) -> None:
    plan = make_plan(tiny_facts)
    config = read_config(tiny)
    short = {name: device for name, device in plan.placement.items() if name != "model.layers.2"}
    with pytest.raises(InternalError, match=r"model\.layers\.2.* has no place"):
        placement.check(config, msgspec.structs.replace(plan, placement=short), tiny_facts)
    strange = plan.placement | {"transformer.h.0": "cpu"}
    with pytest.raises(InternalError, match=r"transformer\.h\.0 is not a module"):
        placement.check(config, msgspec.structs.replace(plan, placement=strange), tiny_facts)


def test_tied_modules_must_share_a_device(tmp_path: Path, make_plan: MakePlan) -> None:
    AutoModelForCausalLM.from_config(CONFIGS["llama-tied"]).save_pretrained(tmp_path / "tied")
    facts = inspect(tmp_path / "tied", "tied")
    plan = make_plan(facts, lambda module: "disk" if module.kind == "head" else "cpu", runner="offloaded")
    with pytest.raises(InternalError, match="share a tensor"):
        placement.check(read_config(tmp_path / "tied"), plan, facts)


def test_account(tiny: Path, tiny_facts: ModelFacts, make_plan: MakePlan) -> None:
    running = run(tiny, make_plan(tiny_facts))
    account = memory.accounts(running.model, {"cpu": 1000}, {})["cpu"]
    assert isinstance(account, Account)
    assert (account.weights, account.kv_cache) == (tiny_facts.weight_bytes, 1000)
    assert memory.mapped(running.model) == pytest.approx(tiny_facts.weight_bytes, rel=0.001)  # not rotary buffers
    assert account.engine == pytest.approx(memory.private() + tiny_facts.weight_bytes, rel=0.2)
