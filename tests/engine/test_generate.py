"""Generation on tiny random models: the tokens of plain transformers, whatever was cached, stopped or edited."""

from __future__ import annotations

import msgspec
import pytest
import torch

from llmchat.engine.kv.growing import STEP
from llmchat.engine.reply import generate, thinking
from llmchat.engine.reply.context import Context
from llmchat.errors import Cancelled, ModelError, OutOfMemory, PromptError
from llmchat.protocol import AnyEvent, Delta, Generate, Progress

from . import tiny
from .architectures import CONFIGS
from .tiny import Talk, plain, prompt

FAMILIES = tuple(name for name in CONFIGS if name != "qwen3-next")
HYBRID = ("qwen3-next",)
LONG = "the quick brown fox jumps over the lazy dog and more " * 6
Picked = list[int]


@pytest.fixture
def picked(monkeypatch: pytest.MonkeyPatch) -> Picked:
    """Every token that is picked, of all replies."""
    return tiny.record(monkeypatch)


@pytest.mark.parametrize("name", [*FAMILIES, *HYBRID])
def test_greedy_tokens_are_those_of_transformers(name: str, picked: Picked) -> None:
    talk = Talk(tiny.loaded(name))
    stats = talk.ask("hello world", max_tokens=24)
    assert picked == plain(talk.loaded.model, prompt(talk, "hello world"), 24)
    assert len(set(picked)) > 4, "a model that repeats itself proves nothing"
    assert (stats.tokens, stats.reason, stats.prompt_tokens) == (24, "length", len(prompt(talk, "hello world")))


@pytest.mark.parametrize("name", [*FAMILIES, *HYBRID])
def test_a_prompt_in_pieces_is_a_prompt_at_once(
    name: str, picked: Picked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "chunk", lambda loaded: 7)
    talk = Talk(tiny.loaded(name))
    talk.ask(LONG, max_tokens=12)
    assert picked == plain(talk.loaded.model, prompt(talk, LONG), 12)
    told = [e.done for e in talk.events if isinstance(e, Progress)]
    assert told[0] == 0 and told[-1] == talk.started.prompt_tokens


@pytest.mark.parametrize("name", [*FAMILIES, *HYBRID])
def test_cached_turns_give_the_same_tokens_as_a_fresh_start(name: str, picked: Picked) -> None:
    """Next turn, regenerate, edit of an old message, a shorter chat: each as from scratch."""
    talk = Talk(tiny.loaded(name))
    talk.ask("hello world", max_tokens=16)
    answer = talk.text()
    conversations = [
        ("hello world", answer, "and more"),
        ("hello world", answer, "and more"),
        ("hello world", answer, "the lazy dog"),
        ("hello fox",),
        ("hello world", answer, "the lazy dog", "over", "fox"),
        ("hello world", answer, "the"),
    ]
    for turns in conversations:
        picked.clear()
        talk.ask(*turns, max_tokens=10)
        assert picked == plain(talk.loaded.model, prompt(talk, *turns), 10), turns


def test_full_attention_reuses_all_that_is_common() -> None:
    talk = Talk(tiny.loaded("llama"))
    first = talk.ask(LONG, max_tokens=8)
    assert first.reused_tokens == 0
    again = talk.ask(LONG, max_tokens=8)
    assert again.reused_tokens == talk.started.reused_tokens == first.prompt_tokens - 1
    edited = talk.ask(LONG + "fox", max_tokens=8)
    assert 0 < edited.reused_tokens < first.prompt_tokens - 1


@pytest.mark.parametrize("name", ["mistral", "gemma3", *HYBRID])
def test_what_cannot_be_cropped_is_read_anew(name: str) -> None:
    """A filled sliding window and a recurrent state cannot go back; going on they are reused."""
    talk = Talk(tiny.loaded(name))
    first = talk.ask(LONG, max_tokens=8)
    assert talk.ask(LONG, max_tokens=8).reused_tokens == 0
    cached = len(talk.generator._context)
    assert cached == first.prompt_tokens + 7
    ids = [*talk.generator._context._tokens, 9, 9]
    assert talk.generator._context.rewind(ids) == cached


def test_a_cache_of_unknown_kind_is_never_fed_in_pieces(picked: Picked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "chunk", lambda loaded: 5)
    monkeypatch.setattr(Context, "extends", False)
    talk = Talk(tiny.loaded("llama"))
    for _ in range(2):
        picked.clear()
        assert talk.ask(LONG, max_tokens=6).reused_tokens == 0
        assert len([e for e in talk.events if isinstance(e, Progress)]) == 2
        assert picked == plain(talk.loaded.model, prompt(talk, LONG), 6)


def test_stop_comes_within_a_token_and_leaves_a_right_cache(picked: Picked) -> None:
    talk = Talk(tiny.loaded("llama"))
    full = plain(talk.loaded.model, prompt(talk, LONG), 40)
    original = talk.generator._context.feed

    def feed(tokens: list[int]) -> torch.Tensor:
        if len(picked) == 5:
            talk.task.cancel()
        return original(tokens)

    talk.generator._context.feed = feed  # type: ignore[method-assign]
    stats = talk.ask(LONG, max_tokens=40)
    assert (stats.reason, stats.tokens) == ("stopped", 5)
    assert picked == full[:5]
    del talk.generator._context.feed  # type: ignore[method-assign]
    picked.clear()
    again = talk.ask(LONG, max_tokens=40)
    assert again.reused_tokens > 0 and picked == full


def test_stop_in_prefill_comes_between_two_pieces(monkeypatch: pytest.MonkeyPatch, picked: Picked) -> None:
    monkeypatch.setattr(generate, "chunk", lambda loaded: 16)
    talk = Talk(tiny.loaded("llama"))
    original, fed = talk.generator._context.feed, []

    def feed(tokens: list[int]) -> torch.Tensor:
        fed.append(len(tokens))
        if len(fed) == 2:
            talk.task.cancel()
        return original(tokens)

    talk.generator._context.feed = feed  # type: ignore[method-assign]
    with pytest.raises(Cancelled):
        talk.ask(LONG)
    assert fed == [16, 16] and not picked
    del talk.generator._context.feed  # type: ignore[method-assign]
    assert talk.ask(LONG, max_tokens=5).reused_tokens == 32
    assert picked == plain(talk.loaded.model, prompt(talk, LONG), 5)


def test_the_context_is_never_exceeded(picked: Picked) -> None:
    talk = Talk(tiny.loaded("llama", context=64))
    stats = talk.ask("hello world")
    assert stats.reason == "context"
    assert stats.prompt_tokens + stats.tokens == 64
    assert talk.ask("hello world", max_tokens=500).reason == "context"
    assert talk.ask("hello world", max_tokens=3).reason == "length"


def test_every_stop_token_ends_the_reply(picked: Picked) -> None:
    free = plain(tiny.model("llama"), prompt(Talk(tiny.loaded()), "hello"), 20)
    last = free[7]
    talk = Talk(tiny.loaded(eos=frozenset({last, 10_000})))
    stats = talk.ask("hello")
    assert stats.reason == "end"
    assert picked == free[: free.index(last) + 1]
    assert stats.tokens == len(picked)


def test_logits_that_are_no_numbers_end_it_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(tiny.loaded("llama"))
    original, calls = Context.feed, []

    def feed(self: Context, tokens: list[int]) -> torch.Tensor:
        calls.append(len(tokens))
        logits = original(self, tokens)
        return logits * float("nan") if len(calls) == 4 else logits

    monkeypatch.setattr(Context, "feed", feed)
    with pytest.raises(ModelError, match="not numbers") as raised:
        talk.ask("hello", max_tokens=20)
    assert raised.value.stats == talk.generator.last_stats
    assert talk.generator.last_stats and talk.generator.last_stats.tokens == 3


def test_out_of_memory_keeps_the_part_that_came_and_frees_the_cache(
    monkeypatch: pytest.MonkeyPatch, picked: Picked
) -> None:
    talk = Talk(tiny.loaded("llama"))
    original, calls = Context.feed, []

    def feed(self: Context, tokens: list[int]) -> torch.Tensor:
        calls.append(len(tokens))
        if len(calls) == 9:
            assert talk.generator.kv_bytes()["cpu"] > 0
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return original(self, tokens)

    monkeypatch.setattr(Context, "feed", feed)
    with pytest.raises(OutOfMemory, match=r"2\.00 GiB") as raised:
        talk.ask("hello", max_tokens=20)
    stats = talk.generator.last_stats
    assert stats and stats is raised.value.stats
    assert (stats.reason, stats.tokens) == ("failed", 8)
    assert talk.text() == talk.loaded.tokenizer.decode(picked, skip_special_tokens=True).rstrip("\ufffd")
    assert talk.generator.kv_bytes() == {}
    assert raised.value.__cause__ is None and raised.value.__context__ is None, "would keep activations alive"
    monkeypatch.setattr(Context, "feed", original)
    picked.clear()
    assert talk.ask("hello", max_tokens=12).reused_tokens == 0
    assert picked == plain(talk.loaded.model, prompt(talk, "hello"), 12)


def test_the_kv_cache_is_counted_by_what_it_takes() -> None:
    talk = Talk(tiny.loaded("llama"))
    stats = talk.ask("hello world", max_tokens=5)
    assert stats.prompt_tokens + stats.tokens < STEP  # there is room for so many at first
    assert talk.generator.kv_bytes() == {"cpu": STEP * 3 * 2 * 2 * 16 * 4}  # layers, K and V, heads, size, fp32


def test_the_statistics_are_of_this_reply() -> None:
    talk = Talk(tiny.loaded("llama"))
    stats = talk.ask("hello", max_tokens=10)
    assert 0 < stats.time_to_first_token < 30
    assert 0 < stats.seconds < 30
    assert stats.tokens_per_second == pytest.approx(9 / stats.seconds)
    assert talk.generator.last_stats == stats
    counts = [e.tokens for e in talk.events if isinstance(e, Delta)]
    assert counts == sorted(counts) and counts[-1] <= 10


def test_deltas_are_batched_and_the_first_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]

    def monotonic() -> float:
        clock[0] += 0.001
        return clock[0]

    monkeypatch.setattr("llmchat.engine.reply.streaming.time.monotonic", monotonic)
    talk = Talk(tiny.loaded("llama"))
    talk.ask("hello", max_tokens=200)
    deltas = [e for e in talk.events if isinstance(e, Delta)]
    assert deltas[0].tokens <= 3
    assert 2 < len(deltas) <= 200 * 0.002 * 30 + 2
    assert [d.tokens for d in deltas] == sorted({d.tokens for d in deltas})


def test_it_answers_through_offloading_hooks(picked: Picked) -> None:
    import copy

    import accelerate

    talk = Talk(tiny.loaded("llama"))
    expected = plain(talk.loaded.model, prompt(talk, "hello world"), 8)
    talk.loaded.model = copy.deepcopy(talk.loaded.model)
    accelerate.cpu_offload(talk.loaded.model, execution_device=torch.device("cpu"))
    hooked = Talk(talk.loaded)
    hooked.ask("hello world", max_tokens=8)
    assert picked == expected


def test_a_continued_message_goes_on_where_it_broke_off(picked: Picked) -> None:
    talk = Talk(tiny.loaded("llama"))
    talk.ask("hello", "the quick bro", continues=True, max_tokens=8)
    ids = prompt(talk, "hello") + talk.loaded.tokenizer.encode("the quick bro", add_special_tokens=False)
    assert talk.started.prompt_tokens == len(ids)
    assert picked == plain(talk.loaded.model, ids, 8)


def test_thinking_and_answer_come_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(tiny.loaded("llama", eos=frozenset({tiny.EOS})))
    ids = talk.loaded.tokenizer.encode("<think>the lazy dog</think>\n\nhello world", add_special_tokens=False)
    script = iter([*ids, tiny.EOS])
    monkeypatch.setattr("llmchat.engine.reply.generate.Sampler.pick", lambda self, logits: next(script))
    assert talk.ask("hello").reason == "end"
    assert (talk.text("thinking"), talk.text()) == ("the lazy dog", "hello world")


def test_thinking_of_gpt_oss_does_not_end_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ``<|end|>`` ends the thinking, while Phi-3's ends the turn."""
    model = tiny.loaded("llama")
    marks = ["<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|return|>"]
    assert not thinking.inner(model.tokenizer)
    model.tokenizer.add_special_tokens({"additional_special_tokens": [*tiny.SPECIAL[3:], *marks]})
    text = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>hello<|return|>"
    ids = model.tokenizer.encode(text, add_special_tokens=False)
    model.eos_ids = frozenset(model.tokenizer.convert_tokens_to_ids(["<|end|>", "<|return|>"]))
    talk, script = Talk(model), iter(ids)
    monkeypatch.setattr("llmchat.engine.reply.generate.Sampler.pick", lambda self, logits: next(script))
    monkeypatch.setattr(Context, "feed", lambda self, tokens: torch.zeros(1))
    assert talk.ask("hello").tokens == len(ids)
    assert (talk.text("thinking"), talk.text()) == ("hm", "hello")


@pytest.mark.parametrize(
    ("device", "parameters", "tokens"),
    [("cuda:0", 70e9, 512), ("cpu", 135e6, 256), ("cpu", 3.2e9, 128), ("cpu", 8e9, 32), ("cpu", 70e9, 32)],
)
def test_large_models_on_the_cpu_read_less_at_once(device: str, parameters: float, tokens: int) -> None:
    model = tiny.loaded("llama")
    model.input_device = torch.device(device)
    model.facts = msgspec.structs.replace(model.facts, parameters=int(parameters))
    assert generate.chunk(model) == tokens


def test_a_message_too_long_says_both_numbers() -> None:
    talk = Talk(tiny.loaded("llama", context=64))
    with pytest.raises(PromptError) as raised:
        talk.ask(LONG * 3)
    assert "64" in raised.value.message and f"{len(prompt(talk, LONG * 3)):,}" in raised.value.message
    assert not talk.events


def test_proof_accepts_a_sound_model_and_refuses_a_broken_one(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(tiny.loaded("llama"))
    generate.prove(talk.loaded, talk.task)
    feed = Context.feed
    monkeypatch.setattr(Context, "feed", lambda self, tokens: feed(self, tokens) * float("inf"))
    with pytest.raises(ModelError):
        generate.prove(talk.loaded, talk.task)


def test_a_stopped_command_does_nothing() -> None:
    talk = Talk(tiny.loaded("llama"))
    talk.task.cancel()
    events: list[AnyEvent] = []
    with pytest.raises(Cancelled):
        talk.generator.run(
            Generate(id=1, messages=tiny.chat("hello"), sampling=tiny.GREEDY), talk.task, events.append
        )
    assert not events
