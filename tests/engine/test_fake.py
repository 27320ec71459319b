"""The fake engine, over real pipes."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llmchat.domain.chat import Message, Sampling
from llmchat.domain.hardware import Gpu, HardwareProfile, Software
from llmchat.domain.memory import GIB, Account, cuda
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Plan, Precision
from llmchat.engine.fake import models as fake_models
from llmchat.protocol import (
    AnyCommand,
    AnyEvent,
    Calibrate,
    Calibrated,
    Convert,
    Converted,
    Delta,
    Failed,
    Finished,
    Generate,
    Heartbeat,
    Hello,
    Inspect,
    Inspected,
    Load,
    Loaded,
    Progress,
    Ready,
    Started,
    Stop,
    decode_event,
    encode,
)

MACHINE = HardwareProfile(
    name="two GPUs",
    gpus=tuple(Gpu(index=i, name="NVIDIA H100 80GB HBM3", total=80 * GIB, free=79 * GIB) for i in range(2)),
    ram_total=256 * GIB,
    ram_available=200 * GIB,
    software=Software(torch="2.13.0", torch_cuda="13.0", transformers="5.24.0"),
)
SHARE = Account(weights=70 * GIB, kv_cache=2 * GIB, compute=3 * GIB)


class Peer:
    """The parent's end of the pipe, blocking."""

    def __init__(self, hardware: Path, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "llmchat.engine", "--fake", str(hardware)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"LLMCHAT_FAKE_LOAD_SECONDS": "0.05", "LLMCHAT_FAKE_SPEED": "500"} | environment,
        )
        self.lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self.beats: list[Heartbeat] = []
        self.id = 0

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(b"")

    def hear(self, seconds: float = 5) -> AnyEvent:
        """The next event but a heartbeat; EOFError when the engine is gone, DecodeError for garbage."""
        while True:
            line = self.lines.get(timeout=seconds)
            if not line:
                raise EOFError
            event = decode_event(line)
            if not isinstance(event, Heartbeat):
                return event
            self.beats.append(event)

    def say(self, command: AnyCommand) -> None:
        assert self.process.stdin
        self.process.stdin.write(encode(command))
        self.process.stdin.flush()

    def do(self, make: Callable[..., AnyCommand], **values: Any) -> list[AnyEvent]:
        """All events of a command, its result last."""
        return list(self.start(make, **values))

    def start(self, make: Callable[..., AnyCommand], **values: Any) -> Iterator[AnyEvent]:
        self.id += 1
        self.say(make(id=self.id, **values))
        while True:
            event = self.hear()
            assert not isinstance(event, Hello | Ready) and event.id == self.id
            yield event
            if isinstance(event, Finished | Failed | Loaded | Inspected | Converted | Calibrated):
                return

    def ask(self, *texts: str, **values: Any) -> list[AnyEvent]:
        return self.do(Generate, **question(*texts), **values)

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


def question(*texts: str) -> dict[str, Any]:
    messages = tuple(
        Message(role="user" if index % 2 == 0 else "assistant", content=text) for index, text in enumerate(texts)
    )
    return {"messages": messages, "sampling": Sampling()}


def plan(facts: ModelFacts, context: int = 8192) -> Plan:
    """The layers in two halves on two GPUs."""
    names = [module.name for module in facts.modules]
    half = len(names) // 2
    return Plan(
        strategy="multi-gpu",
        runner="resident",
        precision=Precision.PUBLISHED,
        dtype="bfloat16",
        context=context,
        placement={name: cuda(int(index > half)) for index, name in enumerate(names)},
        main_device=cuda(0),
        devices={cuda(0): SHARE, cuda(1): SHARE},
        tokens_per_second=14.0,
        time_to_first_token=0.5,
    )


@pytest.fixture
def hardware(tmp_path: Path) -> Path:
    file = tmp_path / "machine.json"
    file.write_bytes(msgspec.json.encode(MACHINE))
    return file


@pytest.fixture
def peer(hardware: Path) -> Iterator[Peer]:
    made = Peer(hardware)
    assert isinstance(made.hear(), Hello)
    ready = made.hear()
    assert isinstance(ready, Ready) and ready.gpus == MACHINE.gpus
    assert ready.versions == {"torch": "2.13.0", "cuda": "13.0", "transformers": "5.24.0"}
    yield made
    made.close()


@pytest.fixture
def loaded(peer: Peer, tmp_path: Path) -> Peer:
    facts = inspected(peer, tmp_path)
    assert isinstance(peer.do(Load, path=str(tmp_path), plan=plan(facts), facts=facts)[-1], Loaded)
    return peer


def inspected(peer: Peer, path: Path, model: str = "demo-70b") -> ModelFacts:
    event = peer.do(Inspect, path=str(path), model_id=model)[-1]
    assert isinstance(event, Inspected)
    return event.facts


def text(events: list[AnyEvent], kind: str = "answer") -> str:
    return "".join(e.text for e in events if isinstance(e, Delta) and e.kind == kind)


def test_it_starts_at_once_and_imports_nothing_heavy(hardware: Path) -> None:
    code = (
        "import sys, time; t = time.perf_counter(); import llmchat.engine.__main__, llmchat.engine.fake; "
        "print(time.perf_counter() - t, [m for m in ('torch', 'transformers', 'textual') if m in sys.modules])"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split(
            " ", 1
        )
        for _ in range(3)
    ]
    assert all(modules.strip() == "[]" for _, modules in runs)
    assert min(float(seconds) for seconds, _ in runs) < 0.3


@pytest.mark.parametrize(
    ("model", "gigabytes"), [("demo-8b", 16.06), ("x/demo-13B", 26.03), ("demo-70b", 141.1), ("other", 16.06)]
)
def test_facts_have_the_sizes_of_real_models(model: str, gigabytes: float) -> None:
    facts = fake_models.facts(model, Path("/nowhere"))
    assert facts.weight_bytes / 1e9 == pytest.approx(gigabytes, rel=0.001)
    assert facts.id == model


def test_kv_cache_of_70b_is_40_gib_at_128k() -> None:
    assert fake_models.facts("70b", Path("/nowhere")).kv_bytes(131072) == 40 * GIB


def test_facts_of_a_folder_with_a_config_are_that_model_s(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,'
        '"num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": true}'
    )
    assert fake_models.facts("whatever", tmp_path).parameters == 134_515_008  # SmolLM2-135M


def test_inspect_convert_calibrate(peer: Peer, tmp_path: Path) -> None:
    assert len(inspected(peer, tmp_path).layers) == 80
    events = peer.do(Convert, source="a.gguf", target="b")
    assert isinstance(events[-1], Converted) and events[-1].target == "b"
    steps = [e for e in events if isinstance(e, Progress)]
    assert steps[-1].done == steps[-1].total > 0
    measured = peer.do(Calibrate)[-1]
    assert isinstance(measured, Calibrated)
    assert all(gpu.read_bandwidth and gpu.link_bandwidth for gpu in measured.gpus)
    assert measured.ram_bandwidth and measured.disk_bandwidth and measured.layer_overhead


def test_memory_fills_to_the_plan_and_the_kv_cache_grows(loaded: Peer) -> None:
    events = loaded.ask("!long 300")
    assert isinstance(events[-1], Finished)
    while (
        not loaded.beats
        or loaded.beats[-1].held.get(cuda(0)) is None
        or not loaded.beats[-1].held[cuda(0)].kv_cache
    ):
        loaded.beats += [decode_event(loaded.lines.get(timeout=5))]  # type: ignore[list-item]
    held = loaded.beats[-1].held
    assert held[cuda(0)].weights == held[cuda(1)].weights == SHARE.weights
    assert held[cuda(0)].reserved >= SHARE.weights + SHARE.compute


def test_stopping_a_load_gives_the_memory_back(hardware: Path, tmp_path: Path) -> None:
    peer = Peer(hardware, LLMCHAT_FAKE_LOAD_SECONDS="30")
    assert isinstance(peer.hear(), Hello) and isinstance(peer.hear(), Ready)
    facts = inspected(peer, tmp_path)
    begun = time.monotonic()
    events = []
    for event in peer.start(Load, path=str(tmp_path), plan=plan(facts), facts=facts):
        events.append(event)
        if len(events) == 3:
            peer.say(Stop(id=peer.id))
    assert isinstance(events[-1], Failed) and events[-1].problem.kind == "Cancelled"
    assert time.monotonic() - begun < 5
    failed = peer.ask("hello")[-1]
    assert isinstance(failed, Failed) and failed.problem.title == "No model is loaded"
    peer.close()


def test_a_reply_is_markdown_and_its_events_are_in_order(loaded: Peer) -> None:
    events = loaded.ask("Compare the strategies in a table")
    assert isinstance(events[0], Started) and isinstance(events[-1], Finished)
    assert "|---|" in text(events)
    stats = events[-1].stats
    assert (stats.reason, stats.prompt_tokens) == ("end", events[0].prompt_tokens)
    counts = [e.tokens for e in events if isinstance(e, Delta)]
    assert counts == sorted(counts) and counts[-1] == stats.tokens
    assert "```python" in text(loaded.ask("!code"))
    thinking = loaded.ask("!think")
    assert text(thinking, "thinking") and text(thinking)


def test_it_remembers_the_conversation(loaded: Peer) -> None:
    answer = text(loaded.ask("I am Ada"))
    events = loaded.ask("I am Ada", answer, "Who am I?")
    assert "I am Ada" in text(events)
    assert isinstance(events[0], Started) and events[0].reused_tokens > 0


def test_limits_are_kept(peer: Peer, tmp_path: Path) -> None:
    facts = inspected(peer, tmp_path)
    peer.do(Load, path=str(tmp_path), plan=plan(facts, context=120), facts=facts)
    ended = peer.ask("!long 500")[-1]
    assert isinstance(ended, Finished) and ended.stats.reason == "context"
    assert ended.stats.prompt_tokens + ended.stats.tokens == 120
    few = peer.do(Generate, **question("!long 500") | {"sampling": Sampling(max_tokens=7)})[-1]
    assert isinstance(few, Finished) and (few.stats.reason, few.stats.tokens) == ("length", 7)
    started = peer.ask("old " * 200, "older", "new")[0]
    assert isinstance(started, Started) and started.seen_from == 2
    failed = peer.ask("too long " * 200)[-1]
    assert isinstance(failed, Failed) and failed.problem.kind == "PromptError"


def test_stop_keeps_the_part_that_came(loaded: Peer) -> None:
    events = []
    for event in loaded.start(Generate, **question("!long 5000")):
        if isinstance(event, Delta) and not any(isinstance(e, Delta) for e in events):
            loaded.say(Stop(id=loaded.id))
        events.append(event)
    assert isinstance(events[-1], Finished)
    assert events[-1].stats.reason == "stopped" and 0 < events[-1].stats.tokens < 2500


def test_it_generates_as_fast_as_it_is_told(loaded: Peer) -> None:
    events = loaded.ask("!long 1000")
    assert isinstance(events[-1], Finished)
    assert events[-1].stats.tokens == 1000
    speed = events[-1].stats.tokens_per_second
    assert speed and 350 < speed < 650
    assert len([e for e in events if isinstance(e, Delta)]) <= 30 * events[-1].stats.seconds + 2


def test_out_of_memory_keeps_the_part_and_the_engine(loaded: Peer) -> None:
    failed = loaded.ask("!oom")
    assert isinstance(failed[-1], Failed) and failed[-1].problem.kind == "OutOfMemory"
    assert failed[-1].stats and failed[-1].stats.reason == "failed" and text(failed)
    assert isinstance(loaded.ask("hello")[-1], Finished)


def test_it_dies_by_the_signal_of_the_out_of_memory_killer(loaded: Peer) -> None:
    with pytest.raises(EOFError):
        loaded.ask("!die")
    assert loaded.process.wait(10) == -signal.SIGKILL


def test_garbage_on_the_pipe(loaded: Peer) -> None:
    with pytest.raises(msgspec.DecodeError):
        loaded.ask("!garbage")
    while not isinstance(event := loaded.hear(), Finished):
        assert isinstance(event, Delta)


def test_hanging_it_gives_no_sign_of_life_and_ends_with_its_parent(loaded: Peer) -> None:
    with pytest.raises(queue.Empty):
        for _ in loaded.start(Generate, **question("!hang")):
            pass
        raise AssertionError("it did not hang")
    loaded.close()
    assert loaded.process.returncode == 0


def test_a_continued_reply_goes_on(loaded: Peer) -> None:
    whole = text(loaded.ask("!code"))
    rest = text(loaded.ask("!code", whole[:40], continue_last=True))
    assert whole[:40] + rest == whole
