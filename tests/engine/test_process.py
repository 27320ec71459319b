"""The engine process as the parent sees it: hello, ready, work, stop, and an end that leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
import torch

from llmchat.domain.chat import Message, Sampling
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Precision
from llmchat.engine.model.inspect import inspect
from llmchat.protocol import (
    Calibrate,
    Calibrated,
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
    Stop,
    encode,
)

from .conftest import MakePlan
from .process import Engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    started = Engine(tmp_path / "engine.log")
    yield started
    started.close()


def test_a_life(engine: Engine, tiny: Path, tiny_facts: ModelFacts, make_plan: MakePlan) -> None:
    """Hello, Ready, facts, a garbled line, a failed load, a load, an answer, heartbeats all along."""
    assert engine.wait(Hello, timeout=5).pid == engine.process.pid
    ready = engine.wait(Ready)
    assert (
        ready.versions["torch"] == torch.__version__.partition("+")[0]
        or ready.versions["torch"] in torch.__version__
    )
    assert {"transformers", "accelerate", "bitsandbytes"} <= set(ready.versions)
    if not torch.cuda.is_available():
        assert ready.gpus == ()

    engine.send_line(b'{"type": "Nonsense"\n\n')
    engine.send(Inspect(id=1, path=str(tiny), model_id="llama-tiny"))
    inspected = engine.wait(Inspected, Failed)
    assert isinstance(inspected, Inspected)
    assert (inspected.id, inspected.facts) == (1, tiny_facts)
    assert "not a command" in engine.log.read_text()

    engine.send(Generate(id=2, messages=(Message(role="user", content="hi"),), sampling=Sampling()))
    assert engine.wait(Failed).problem.kind == "UsageError"

    plan = make_plan(tiny_facts)
    room = {"cpu": msgspec.structs.replace(plan.devices["cpu"], compute=2**30)}
    plan = msgspec.structs.replace(plan, devices=room)
    engine.send(Load(id=3, path=str(tiny / "nowhere"), plan=plan, facts=tiny_facts))
    failed = engine.wait(Failed)
    assert (failed.id, failed.problem.kind) == (3, "ModelError")
    assert "nowhere" in failed.problem.message

    engine.send(Load(id=4, path=str(tiny), plan=plan, facts=tiny_facts))
    loaded = engine.wait(Loaded, Failed)
    assert isinstance(loaded, Loaded), loaded
    assert loaded.devices["cpu"].weights == tiny_facts.weight_bytes
    assert loaded.notes == ()
    stages = [event.stage for event in engine.seen if isinstance(event, Progress) and event.id == 4]
    assert list(dict.fromkeys(stages)) == [
        "Checking the checkpoint",
        "Reading weights",
        "Proving it with one token",
    ]

    engine.send(
        Generate(
            id=5,
            messages=(Message(role="user", content="hi"),),
            sampling=Sampling(temperature=0, max_tokens=5),
        )
    )
    finished = engine.wait(Finished, Failed)
    assert isinstance(finished, Finished), finished
    assert 1 <= finished.stats.tokens <= 5

    held = engine.wait(Heartbeat, where=lambda beat: beat.held["cpu"].weights > 0).held["cpu"]
    assert held.weights == tiny_facts.weight_bytes
    assert held.reserved > 50 * 2**20

    quarter = msgspec.structs.replace(plan, precision=Precision.INT4)
    engine.send(Load(id=6, path=str(tiny), plan=quarter, facts=tiny_facts))
    again = engine.wait(Loaded, Failed)
    assert isinstance(again, Loaded), again
    assert again.devices["cpu"].weights < tiny_facts.weight_bytes
    assert again.notes == ()  # a tiny model's bytes are not worth a remark

    engine.send(Calibrate(id=7, disk_file=str(next(tiny.glob("*.safetensors")))))
    speeds = engine.wait(Calibrated)
    assert speeds.ram_bandwidth and speeds.ram_bandwidth > 1e8
    assert speeds.layer_overhead and 1e-6 < speeds.layer_overhead < 1


def test_stop_during_load(engine: Engine, tiny: Path, tiny_facts: ModelFacts, make_plan: MakePlan) -> None:
    engine.wait(Ready)
    load = Load(id=1, path=str(tiny), plan=make_plan(tiny_facts), facts=tiny_facts)
    engine.send_line(encode(load) + encode(Stop(id=1)))
    failed = engine.wait(Failed, Loaded)
    assert isinstance(failed, Failed)
    assert (failed.id, failed.problem.kind) == (1, "Cancelled")
    engine.send(msgspec.structs.replace(load, id=2))
    loaded = engine.wait(Loaded, Failed)
    assert isinstance(loaded, Loaded), loaded
    assert loaded.id == 2


@pytest.mark.smollm2
def test_stop_in_the_middle_of_the_weights(engine: Engine, smollm2: Path, make_plan: MakePlan) -> None:
    """Quantizing takes seconds: it is left at the next tensor, what was read is given back, and a load works."""
    engine.wait(Ready)
    facts = inspect(smollm2, "smollm2")
    load = Load(id=1, path=str(smollm2), plan=make_plan(facts, precision=Precision.INT4), facts=facts)
    engine.send(load)
    engine.wait(Progress, where=lambda event: event.unit == "bytes" and 0 < event.done < event.total // 2)
    engine.send(Stop(id=1))
    failed = engine.wait(Failed, Loaded, timeout=3)
    assert isinstance(failed, Failed)
    assert failed.problem.kind == "Cancelled"
    beat = engine.wait(Heartbeat)
    assert beat.held["cpu"].weights == 0
    engine.send(msgspec.structs.replace(load, id=2, plan=make_plan(facts)))
    loaded = engine.wait(Loaded, Failed)
    assert isinstance(loaded, Loaded), loaded


@pytest.mark.parametrize("when", ["importing", "ready"])
def test_the_end_of_stdin_ends_it(engine: Engine, when: str) -> None:
    engine.wait(Hello if when == "importing" else Ready)
    assert engine.process.stdin
    engine.process.stdin.close()
    assert engine.process.wait(2) == 0


def test_a_pipe_that_nobody_reads_ends_it(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "llmchat.engine"], stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.DEVNULL
    )
    os.close(writing)
    os.read(reading, 10)
    os.close(reading)
    assert process.wait(30) == 0
    assert process.stdin
    process.stdin.close()


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG")
def test_it_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """The pipe's other end is held open by this test, so that EOF cannot be what ends it."""
    reading, writing = os.pipe()
    code = (
        "import subprocess, sys, time\n"
        "command = [sys.executable, '-m', 'llmchat.engine']\n"
        f"p = subprocess.Popen(command, stdin={reading}, stdout=subprocess.PIPE)\n"
        "p.stdout.readline()\nprint(p.pid, flush=True)\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=[reading]
    )
    assert parent.stdout
    child = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    end = time.monotonic() + 2
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
        time.sleep(0.01)
    parent.stdout.close()
    os.close(reading)
    os.close(writing)


def test_noise_of_libraries_goes_to_the_log(tmp_path: Path, tiny: Path) -> None:
    noise = (
        "import os, atexit, threading\n"
        "import transformers.models.auto.configuration_auto as auto\n"
        "plain = auto.AutoConfig.from_pretrained\n"
        "def loud(*a, **k):\n"
        "    print('PRINTED')\n"
        "    os.write(1, b'WRITTEN\\n')\n"
        "    os.system('echo ECHOED')\n"
        "    return plain(*a, **k)\n"
        "auto.AutoConfig.from_pretrained = loud\n"
    )
    engine = Engine(tmp_path / "engine.log", noise)
    try:
        engine.wait(Ready)
        engine.send(Inspect(id=1, path=str(tiny), model_id="x"))
        assert engine.wait(Inspected).id == 1
        log = engine.log.read_text()
        assert all(word in log for word in ("PRINTED", "WRITTEN", "ECHOED"))
    finally:
        engine.close()
