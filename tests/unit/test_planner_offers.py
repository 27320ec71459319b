"""What is offered beyond the plain plan: the KV cache elsewhere, other hardware, a smaller model; and why not."""

from __future__ import annotations

import msgspec
import pytest
from planner_cases import (
    LLAMA_8B,
    LLAMA_70B,
    LLAMA_405B,
    SMOL,
    WIZARD_13B,
    machine,
    model,
    plan,
    refusal,
    with_gpu,
)

from llmchat.domain import kv
from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import CPU, GIB
from llmchat.domain.plan import Kv, Plan, Precision, Ranking, Request
from llmchat.domain.planner import rank
from llmchat.errors import UsageError


def kept(ranking: Ranking, strategy: str, policy: Kv, precision: Precision = Precision.PUBLISHED) -> Plan:
    return next(p for p in ranking.plans if (p.strategy, p.precision, p.kv) == (strategy, precision, policy))


class TestKvCache:
    def test_of_a_70b_at_128k_is_40_gib_and_the_plan_says_where(self) -> None:
        ranking = rank(model(LLAMA_70B), machine("h200-x8"), Request(context=131072))
        best = ranking.best
        assert best is not None
        assert sum(account.kv_cache for account in best.devices.values()) == 40 * GIB
        said = next(reason for reason in best.because if "KV cache" in reason)
        assert said.startswith(
            "the KV cache for 131,072 tokens takes 40.0 GiB: 20.0 GiB on GPU 0, 20.0 GiB on GPU 1"
        )

    def test_elsewhere_is_offered_where_it_does_not_fit(self) -> None:
        """8 billion parameters in 16 bit and a 128k context: 15 + 16 GiB on a card of 24."""
        request = Request(context=131072)
        ranking = rank(model(LLAMA_8B), machine("rtx3090-x1"), request)
        refused = refusal(ranking, "single-gpu")
        in_ram = kept(ranking, "single-gpu", "ram")
        assert in_ram.devices[CPU].kv_cache == 16 * GIB
        assert in_ram.devices["cuda:0"].kv_cache == 0
        assert any(text.startswith("Keep the KV cache in RAM: that fits (") for text in refused.remedies)
        assert not any(p.strategy == "single-gpu" and p.kv == "8bit" and p.precision is Precision.PUBLISHED
                       for p in ranking.plans), "15.0 + 8.5 GiB do not fit either"  # fmt: skip
        eight = kept(ranking, "single-gpu", "8bit", Precision.INT8)
        assert eight.devices["cuda:0"].kv_cache == sum(
            kv.eight_bit(module.cache).size(131072) for module in model(LLAMA_8B).modules
        )

    def test_stays_with_the_layers_where_it_fits(self) -> None:
        ranking = rank(model(LLAMA_8B), machine("h200"), Request())
        assert {p.kv for p in ranking.proposals} == {"device"}

    def test_in_ram_is_slow_with_a_full_context_and_ranked_by_that(self) -> None:
        ranking = rank(model(LLAMA_8B), machine("rtx3090-x1"), Request(context=131072))
        in_ram = kept(ranking, "single-gpu", "ram")
        assert in_ram.tokens_per_second > 10 * in_ram.full_tokens_per_second
        assert in_ram.pace < 8 < in_ram.tokens_per_second
        assert ranking.best is not None and ranking.best.kv != "ram"

    @pytest.mark.parametrize("policy", ["device", "8bit", "ram"])
    def test_as_the_person_wants_it(self, policy: Kv) -> None:
        ranking = rank(model(LLAMA_8B), machine("h200"), Request(kv=policy))
        assert {p.kv for p in ranking.proposals if p.strategy != "cpu"} == {policy}
        assert ranking.best is not None
        if policy != "device":
            assert "You asked for the KV cache in" in ranking.why

    def test_in_8_bit_is_offered_on_a_cpu_too(self) -> None:
        """8 billion parameters in 4 bit and a 128k context: 5 + 16 GiB where 22 are free."""
        ranking = rank(model(LLAMA_8B), machine("no-gpu-24gb"), Request(context=131072))
        eight = kept(ranking, "cpu", "8bit", Precision.INT4)
        assert eight.devices[CPU].kv_cache < 9 * GIB
        refused = refusal(ranking, "cpu", Precision.INT4)
        assert any(text.startswith("Keep the KV cache in 8 bit: that fits (") for text in refused.remedies)

    def test_in_ram_costs_nothing_where_the_cpu_runs_the_model(self) -> None:
        usual = plan(rank(model(SMOL), machine("no-gpu-24gb"), Request()), "cpu")
        assert rank(model(SMOL), machine("no-gpu-24gb"), Request(kv="ram")).best == usual

    def test_needs_the_ram_that_it_takes(self) -> None:
        short = msgspec.structs.replace(machine("h200"), ram_available=3 * GIB)
        refused = refusal_of(rank(model(LLAMA_8B), short, Request(kv="ram", context=131072)), "single-gpu")
        assert refused.device == CPU
        assert refused.missing == pytest.approx(16 * GIB + 1.5 * GIB + 0.5 * GIB - 3 * GIB, rel=0.01)


def refusal_of(ranking: Ranking, strategy: str):  # type: ignore[no-untyped-def]
    return next(p for p in ranking.proposals if p.strategy == strategy and p.precision is Precision.PUBLISHED)


class TestGpusInOrder:
    def test_only_those_are_used_and_the_first_first(self) -> None:
        hardware = machine("uneven-80-48-12")
        one = plan(rank(model(LLAMA_8B), hardware, Request(gpus=(1, 0))), "single-gpu")
        assert set(one.placement.values()) == {"cuda:1"}
        many = plan(rank(model(LLAMA_70B), hardware, Request(gpus=(1, 0), precision=Precision.INT8)), "multi-gpu",
                    Precision.INT8)  # fmt: skip
        assert many.main_device == "cuda:1" and "cuda:2" not in many.devices
        assert many.devices["cuda:1"].engine > 0.9 * hardware.gpus[1].total, "the preferred one is filled first"

    def test_one_that_is_not_there(self) -> None:
        with pytest.raises(UsageError, match="use GPU 5; this machine has GPU 0, GPU 1"):
            rank(model(SMOL), machine("rtx3090-x2"), Request(gpus=(5,)))


class TestEnough:
    def said(self, facts: str, hardware: str | HardwareProfile, request: Request | None = None) -> tuple[str, ...]:
        there = machine(hardware) if isinstance(hardware, str) else hardware
        return rank(model(facts), there, request or Request()).enough

    def test_one_gpu_or_more_of_the_same(self) -> None:
        one, more, _ = self.said(LLAMA_70B, "rtx3090-x1")
        assert (
            one
            == "One GPU would hold it with 135 GiB free as published, with 41 GiB free in 4 bit (context 8,192)."
        )
        assert "1 more GPU like GPU 0 (NVIDIA GeForce RTX 3090) in 4 bit" in more

    @pytest.mark.parametrize("precision", [Precision.PUBLISHED, Precision.INT4])
    def test_it_is_true(self, precision: Precision) -> None:
        """With the size that is named it fits, with a GiB less it does not; the same for the number of GPUs."""
        one, more, _ = self.said(LLAMA_70B, "rtx3090-x1")
        word = "as published" if precision is Precision.PUBLISHED else "in 4 bit"
        size = int(next(part for part in one.split("with ") if word in part).split()[0]) * GIB
        request = Request(precision=precision, kv="device")
        for count, fits in ((size, True), (size - GIB, False)):
            grown = with_gpu(machine("rtx3090-x1"), 0, total=count, free=count)
            found = rank(model(LLAMA_70B), grown, request).best
            assert (found is not None and found.strategy == "single-gpu") == fits
        number = int(next(p for p in more.removeprefix("So would ").split(", ") if word in p).split()[0])
        base = machine("rtx3090-x1")
        for added, fits in ((number, True), (number - 1, False)):
            cards = tuple(
                msgspec.structs.replace(
                    base.gpus[0], index=index, free=base.gpus[0].free if index == 0 else 24 * GIB
                )
                for index in range(1 + added)
            )
            found = rank(model(LLAMA_70B), msgspec.structs.replace(base, gpus=cards), request).best
            assert (found is not None and found.strategy == "multi-gpu") == fits

    def test_nothing_where_all_is_well(self) -> None:
        assert self.said(LLAMA_8B, "h200") == ()
        assert self.said(SMOL, "no-gpu-24gb") == ()

    def test_a_smaller_sibling_that_answers_comfortably(self) -> None:
        *_, sibling = self.said(LLAMA_405B, "h200")
        assert sibling.startswith(
            "meta-llama/Llama-3.3-70B-Instruct, of the same family, would be single-gpu: 135.0 GiB"
        )
        *_, sibling = self.said(WIZARD_13B, "laptop-8gb")
        assert sibling.startswith("meta-llama/Llama-2-7b-chat-hf, of the same family, would be single-gpu · 4bit")


class TestWhyNot:
    def reasons(self, facts: str, hardware: str, request: Request | None = None) -> dict[str, str]:
        return {p.label: p.why_not for p in rank(model(facts), machine(hardware), request or Request()).plans}

    def test_every_plan_but_the_best_says_why(self) -> None:
        for request in (Request(), Request(prefer="speed"), Request(prefer="quality"), Request(strategy="cpu")):
            said = self.reasons(LLAMA_8B, "h200", request)
            assert sum(not why for why in said.values()) == 1
            assert all(why.endswith(".") for why in said.values() if why)

    def test_in_words(self) -> None:
        said = self.reasons(LLAMA_8B, "h200")
        assert said["single-gpu · 4bit"] == "Less precise than single-gpu, which is fast enough."
        assert said["ram-offload"] == "It would move nothing: a simpler strategy does the same."
        assert said["cpu"].startswith("Slow: ") and "below the comfortable 8" in said["cpu"]
        assert self.reasons(LLAMA_70B, "rtx3090-x1")["cpu · 4bit"].startswith("Slower: ")
        assert (
            self.reasons(LLAMA_8B, "h200", Request(strategy="cpu"))["single-gpu"]
            == "You asked for something else."
        )
