"""Each strategy on real models and machines."""

from __future__ import annotations

import msgspec
import pytest
from planner_cases import (
    GEMMA_27B,
    LLAMA_8B,
    LLAMA_70B,
    MIXTRAL,
    SMOL,
    STRATEGIES,
    WIZARD_13B,
    machine,
    model,
    with_gpu,
    with_software,
)

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import CPU, DISK, GIB, cuda
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan, Precision, Proposal, Refusal, Request
from llmchat.domain.precision import model_bytes, weight_bytes

ANY = Request()


def ask(
    strategy: str,
    facts: ModelFacts,
    hardware: HardwareProfile,
    precision: Precision = Precision.PUBLISHED,
    context: int = 8192,
    request: Request = ANY,
) -> Proposal:
    return STRATEGIES[strategy].propose(facts, hardware, request, precision, context)


def planned(*args: object, **kwargs: object) -> Plan:
    answer = ask(*args, **kwargs)  # type: ignore[arg-type]
    assert isinstance(answer, Plan), answer
    return answer


def refused(*args: object, **kwargs: object) -> Refusal:
    answer = ask(*args, **kwargs)  # type: ignore[arg-type]
    assert isinstance(answer, Refusal), answer
    return answer


def layers_on(plan: Plan, facts: ModelFacts, device: str) -> list[int]:
    return [number for number, layer in enumerate(facts.layers) if plan.placement[layer.name] == device]


@pytest.mark.parametrize("strategy", ["single-gpu", "multi-gpu", "ram-offload", "managed"])
def test_gpu_strategies_refuse_without_a_gpu(strategy: str) -> None:
    refusal = refused(strategy, model(SMOL), machine("no-gpu-24gb"))
    assert refusal.device is None
    assert "no GPU" in refusal.reason


@pytest.mark.parametrize("strategy", ["single-gpu", "multi-gpu", "ram-offload", "managed"])
def test_gpu_strategies_refuse_with_a_cpu_build_of_torch(strategy: str) -> None:
    hardware = with_software(machine("rtx3090-x2"), torch_cuda=None)
    refusal = refused(strategy, model(SMOL), hardware)
    assert refusal.device is None
    assert "CPU build" in refusal.reason


class TestSingleGpu:
    def test_takes_the_fastest_gpu_that_fits(self) -> None:
        plan = planned("single-gpu", model(LLAMA_8B), machine("uneven-80-48-12"))
        assert set(plan.placement.values()) == {"cuda:0"}
        hardware = with_gpu(machine("uneven-80-48-12"), 0, free=GIB)
        assert set(planned("single-gpu", model(LLAMA_8B), hardware).placement.values()) == {"cuda:1"}

    def test_counts_what_others_hold(self) -> None:
        hardware = with_gpu(machine("rtx3090-x1"), 0, free=16 * GIB)
        plan = refused("single-gpu", model(LLAMA_8B), hardware)
        assert plan.device == "cuda:0"
        gpu = machine("rtx3090-x1").gpus[0]
        fits = planned("single-gpu", model(LLAMA_8B), machine("rtx3090-x1"))
        assert gpu.free is not None
        assert fits.devices["cuda:0"].other == gpu.total - gpu.free

    def test_keeps_to_the_budget(self) -> None:
        request = Request(gpu_budget={0: 10 * GIB})
        refusal = refused("single-gpu", model(LLAMA_8B), machine("h200"), request=request)
        assert any("budget" in remedy for remedy in refusal.remedies)
        exact = Request(gpu_budget={0: 10 * GIB + refusal.missing})
        plan = planned("single-gpu", model(LLAMA_8B), machine("h200"), request=exact)
        assert plan.devices["cuda:0"].engine == exact.gpu_budget[0]

    def test_unknown_free_memory_is_said(self) -> None:
        plan = planned("single-gpu", model(LLAMA_8B), with_gpu(machine("rtx3090-x1"), 0, free=None))
        assert any("unknown" in reason for reason in plan.because)

    def test_emulated_bfloat16_is_said(self) -> None:
        bf16 = planned("single-gpu", model(SMOL), machine("p3.8xlarge"))
        assert any("bfloat16" in reason for reason in bf16.because)
        fp16 = planned("multi-gpu", model(WIZARD_13B), machine("p3.8xlarge"), context=4096)
        assert not any("bfloat16" in reason for reason in fp16.because)

    def test_a_small_shortfall_is_said_in_mib(self) -> None:
        plan = planned("single-gpu", model(SMOL), machine("h200"))
        request = Request(gpu_budget={0: plan.devices["cuda:0"].engine - 5 * 2**20})
        refusal = refused("single-gpu", model(SMOL), machine("h200"), request=request)
        assert (refusal.missing, refusal.device) == (5 * 2**20, "cuda:0")
        assert "5 MiB more" in refusal.reason

    def test_long_context_needs_the_kv_cache(self) -> None:
        short = planned("single-gpu", model(LLAMA_8B), machine("h200"), context=8192)
        long = planned("single-gpu", model(LLAMA_8B), machine("h200"), context=131072)
        assert long.devices["cuda:0"].kv_cache == 16 * GIB
        assert short.devices["cuda:0"].kv_cache == GIB
        assert long.devices["cuda:0"].weights == short.devices["cuda:0"].weights


class TestMultiGpu:
    def test_one_gpu_is_not_enough(self) -> None:
        assert refused("multi-gpu", model(SMOL), machine("h200")).device is None

    def test_fills_uneven_gpus_to_the_last_layer(self) -> None:
        """131.4 GiB of weights on 80 + 48 + 12 GiB: no layer is left off the GPUs."""
        facts = model(LLAMA_70B)
        plan = planned("multi-gpu", facts, machine("uneven-80-48-12"))
        assert {CPU, DISK}.isdisjoint(plan.placement.values())
        ranges = [layers_on(plan, facts, cuda(index)) for index in range(3)]
        assert [number for numbers in ranges for number in numbers] == list(range(80))
        assert all(numbers == list(range(numbers[0], numbers[-1] + 1)) for numbers in ranges)

    def test_embedding_and_head_lie_at_the_ends(self) -> None:
        plan = planned("multi-gpu", model(WIZARD_13B), machine("p3.8xlarge"), context=4096)
        assert plan.placement["model.embed_tokens"] == plan.main_device == "cuda:0"
        assert plan.placement["lm_head"] == plan.placement["model.layers.39"]

    def test_tied_head_lies_with_the_embedding(self) -> None:
        plan = planned("multi-gpu", model(GEMMA_27B), machine("uneven-80-48-12"))
        assert plan.placement["lm_head"] == plan.placement["model.language_model.embed_tokens"]

    def test_balances_equal_gpus(self) -> None:
        plan = planned("multi-gpu", model(LLAMA_8B), machine("p3.8xlarge"))
        used = [account.engine for device, account in plan.devices.items() if device != CPU]
        assert len(used) == 2
        assert max(used) - min(used) < 2 * model(LLAMA_8B).layers[0].bytes

    def test_room_at_a_gpu_in_use_by_others_is_used_too(self) -> None:
        plan = planned("multi-gpu", model(GEMMA_27B), machine("mixed-use-x4"))
        assert set(plan.placement.values()) == {"cuda:0", "cuda:2"}, "the RTX 3090 reads faster than the A6000"
        assert plan.devices["cuda:2"].engine <= machine("mixed-use-x4").gpus[2].free


class TestRamOffload:
    def test_keeps_as_many_layers_as_fit(self) -> None:
        facts, hardware = model(LLAMA_8B), machine("h200")
        plan = planned("ram-offload", facts, hardware, request=Request(gpu_budget={0: 10 * GIB}))
        stays, moved = layers_on(plan, facts, "cuda:0"), layers_on(plan, facts, CPU)
        assert stays + moved == list(range(32))
        account = plan.devices["cuda:0"]
        assert account.kv_cache == facts.kv_bytes(8192)
        assert plan.devices[CPU].kv_cache == 0
        assert 10 * GIB - account.engine < facts.layers[0].bytes
        assert plan.main_device == "cuda:0"

    def test_reserves_room_for_two_layers_in_flight(self) -> None:
        facts, hardware = model(LLAMA_8B), machine("h200")
        resident = planned("single-gpu", facts, hardware).devices["cuda:0"].compute
        offloaded = planned("ram-offload", facts, hardware, request=Request(gpu_budget={0: 10 * GIB}))
        assert offloaded.devices["cuda:0"].compute - resident == 2 * facts.layers[0].bytes

    def test_offloaded_layers_run_on_one_main_gpu(self) -> None:
        facts, hardware = model(LLAMA_70B), machine("mixed-use-x4")
        plan = planned("ram-offload", facts, hardware)
        held = {device: account.kv_cache for device, account in plan.devices.items()}
        a_layer = facts.layers[0].cache.size(8192)
        moved = len(layers_on(plan, facts, CPU))
        assert moved > 0
        assert held[plan.main_device] == a_layer * (moved + len(layers_on(plan, facts, plan.main_device)))
        assert sum(held.values()) == facts.kv_bytes(8192)

    def test_says_when_ram_is_short(self) -> None:
        refusal = refused("ram-offload", model(LLAMA_70B), machine("rtx3090-x1"))
        assert refusal.device == CPU
        assert refusal.missing > 50 * GIB

    def test_is_nothing_where_gpu_and_cpu_share_one_memory(self) -> None:
        hardware = with_gpu(machine("h200"), 0, managed="integrated")
        refusal = refused("ram-offload", model(LLAMA_8B), hardware)
        assert refusal.device is None
        assert "share" in refusal.reason


class TestDiskOffload:
    def test_fills_gpu_then_ram_then_disk(self) -> None:
        facts = model(LLAMA_70B)
        plan = planned("disk-offload", facts, machine("rtx3090-x1"))
        order = [layers_on(plan, facts, device) for device in ("cuda:0", CPU, DISK)]
        assert all(order)
        assert [number for numbers in order for number in numbers] == list(range(80))
        assert plan.devices[DISK].weights == sum(m.bytes for m in facts.modules if plan.placement[m.name] == DISK)

    def test_works_without_a_gpu(self) -> None:
        plan = planned("disk-offload", model(LLAMA_70B), machine("no-gpu-24gb"))
        assert plan.main_device == CPU
        assert set(plan.placement.values()) == {CPU, DISK}
        assert plan.devices[CPU].kv_cache == model(LLAMA_70B).kv_bytes(8192)

    def test_falls_back_to_the_cpu_when_the_gpu_is_full(self) -> None:
        hardware = with_gpu(machine("rtx3090-x1"), 0, free=GIB)
        plan = planned("disk-offload", model(LLAMA_70B), hardware)
        assert plan.main_device == CPU
        assert any("CPU executes" in reason for reason in plan.because)


class TestManaged:
    def test_spills_into_ram_on_a_coherent_machine(self) -> None:
        facts = model(LLAMA_70B)
        plan = planned("managed", facts, machine("gh200-96gb"))
        assert set(plan.placement.values()) == {"cuda:0"}
        assert plan.runner == "managed"
        on_gpu, in_ram = plan.devices["cuda:0"], plan.devices[CPU]
        assert on_gpu.weights + in_ram.weights == facts.weight_bytes
        assert on_gpu.engine == machine("gh200-96gb").gpus[0].free

    def test_needs_rmm_for_the_right_cuda(self) -> None:
        for cuda_version, package in (("12.8", "rmm-cu12"), ("13.0", "rmm-cu13")):
            hardware = with_software(machine("h200"), torch_cuda=cuda_version, rmm=None)
            refusal = refused("managed", model(LLAMA_8B), hardware)
            assert package in refusal.reason
            assert refusal.device is None

    def test_refuses_where_memory_cannot_be_oversubscribed(self) -> None:
        hardware = with_gpu(machine("h200"), 0, managed="none")
        assert refused("managed", model(LLAMA_8B), hardware).device is None

    def test_counts_a_shared_pool_once(self) -> None:
        hardware = with_gpu(machine("h200"), 0, managed="integrated", free=120 * GIB)
        refusal = refused("managed", model(LLAMA_70B), hardware)
        assert refusal.device == "cuda:0"
        plan = planned("managed", model(LLAMA_8B), hardware)
        assert plan.devices[CPU].weights == 0

    def test_does_not_oversubscribe_a_gpu_that_others_use(self) -> None:
        hardware = with_gpu(machine("h200"), 0, free=100 * GIB)
        refusal = refused("managed", model(LLAMA_70B), hardware)
        assert "hang" in refusal.reason
        assert refusal.device == "cuda:0"

    def test_cannot_keep_a_budget_while_it_spills(self) -> None:
        request = Request(gpu_budget={0: 10 * GIB})
        refusal = refused("managed", model(LLAMA_8B), machine("h200"), request=request)
        assert "budget" in refusal.reason


class TestCpu:
    def test_leaves_ram_to_the_system(self) -> None:
        facts, hardware = model(LLAMA_8B), machine("no-gpu-24gb")
        plan = planned("cpu", facts, hardware)
        tight = msgspec.structs.replace(hardware, ram_available=plan.devices[CPU].engine)
        assert refused("cpu", facts, tight).device == CPU

    def test_keeps_to_the_budget(self) -> None:
        refusal = refused("cpu", model(LLAMA_8B), machine("h200"), request=Request(ram_budget=8 * GIB))
        assert refusal.device == CPU
        assert any("budget" in remedy for remedy in refusal.remedies)


class TestQuantized:
    @pytest.mark.parametrize(("precision", "each"), [(Precision.INT8, 1.0), (Precision.INT4, 0.516)])
    def test_shrinks_linear_layers_only(self, precision: Precision, each: float) -> None:
        facts = model(LLAMA_70B)
        layer, embedding = facts.layers[0], facts.modules[0]
        assert weight_bytes(embedding, precision, facts.hidden_size) == embedding.bytes
        linear = weight_bytes(layer, precision, facts.hidden_size) - (layer.bytes - layer.linear_bytes)
        assert linear == pytest.approx(layer.linear_params * each, rel=1e-3)
        plan = planned("single-gpu", facts, machine("h200"), precision)
        assert plan.devices["cuda:0"].weights == model_bytes(facts, precision)
        assert plan.quantized_share == pytest.approx(0.970, abs=0.001)

    def test_fused_experts_are_said_to_stay_16_bit(self) -> None:
        refusal = refused("single-gpu", model(MIXTRAL), machine("h200"), Precision.INT4)
        assert refusal.device is None
        assert "3%" in refusal.reason
        assert "experts" in refusal.reason

    def test_needs_bitsandbytes(self) -> None:
        hardware = with_software(machine("h200"), bitsandbytes=None)
        for strategy in ("single-gpu", "managed", "cpu"):
            assert "bitsandbytes" in refused(strategy, model(LLAMA_8B), hardware, Precision.INT8).reason

    def test_a_quantized_checkpoint_stays_as_it_is(self) -> None:
        facts = msgspec.structs.replace(model(LLAMA_8B), prequantized="gptq")
        assert "gptq" in refused("single-gpu", facts, machine("h200"), Precision.INT4).reason

    @pytest.mark.parametrize("strategy", ["ram-offload", "disk-offload"])
    def test_cannot_be_offloaded(self, strategy: str) -> None:
        refusal = refused(strategy, model(LLAMA_8B), machine("h200"), Precision.INT4)
        assert refusal.device is None
        assert "one device" in refusal.reason

    def test_old_gpus_need_cuda_12(self) -> None:
        facts = model(SMOL)
        planned("single-gpu", facts, machine("p3.8xlarge"), Precision.INT4)
        hardware = with_software(machine("p3.8xlarge"), torch_cuda="13.0")
        refusal = refused("single-gpu", facts, hardware, Precision.INT4)
        assert "7.5" in refusal.reason
        planned("single-gpu", facts, hardware)
