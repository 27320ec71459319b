"""Earlier runs on this disk: kept for a model on a machine, the latest few of each way to hold it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from session_kit import GIB, MACHINE

from llmchat.domain.hardware import Gpu
from llmchat.domain.measured import Run
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Precision
from llmchat.session.saved import runs

FACTS = ModelFacts(
    id="org/model", revision="1", architecture="LlamaForCausalLM", dtype="bfloat16", parameters=10,
    hidden_size=1, vocab_size=1, max_context=1, modules=(),
)  # fmt: skip
RUN = Run(strategy="cpu", precision=Precision.PUBLISHED, formula=20.0, tokens_per_second=10.0, time=1.0)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path))
    return tmp_path


def _file(home: Path) -> Path:
    return next(home.rglob("runs/*.json"))


def test_a_run_is_kept_for_its_model_on_its_machine() -> None:
    runs.save(FACTS, MACHINE, RUN)
    assert runs.load(FACTS, MACHINE) == (RUN,)
    busier = replace(MACHINE, ram_available=GIB)
    assert runs.load(FACTS, busier) == (RUN,), "what is free at the moment makes no other machine"
    gpu = Gpu(index=0, name="GPU", total=GIB, free=GIB)
    assert runs.load(FACTS, replace(MACHINE, gpus=(gpu,))) == ()
    for change in ({"id": "org/other"}, {"revision": "2"}, {"prequantized": "gptq"}):
        assert runs.load(replace(FACTS, **change), MACHINE) == ()


def test_the_same_run_is_kept_once_as_it_was_last() -> None:
    runs.save(FACTS, MACHINE, RUN)
    faster = replace(RUN, tokens_per_second=12.0)
    assert runs.save(FACTS, MACHINE, faster) == (faster,)
    assert runs.load(FACTS, MACHINE) == (faster,)


def test_the_latest_five_of_each_way_are_kept() -> None:
    four_bit = replace(RUN, precision=Precision.INT4, time=0.5)
    runs.save(FACTS, MACHINE, four_bit)
    for number in range(7):
        runs.save(FACTS, MACHINE, replace(RUN, time=float(number)))
    kept = runs.load(FACTS, MACHINE)
    assert four_bit in kept
    assert [run.time for run in kept if run.precision is Precision.PUBLISHED] == [2.0, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize("content", [b"", b"{", b'[{"strategy": "cpu", "later": 1}]'])
def test_a_file_that_cannot_be_read_is_no_error(home: Path, content: bytes) -> None:
    runs.save(FACTS, MACHINE, RUN)
    _file(home).write_bytes(content)
    assert runs.load(FACTS, MACHINE) == ()
    assert runs.save(FACTS, MACHINE, RUN) == (RUN,)
    assert runs.load(FACTS, MACHINE) == (RUN,)


def test_a_cache_that_cannot_be_written_is_no_error(home: Path) -> None:
    runs.save(FACTS, MACHINE, RUN)
    folder = _file(home).parent
    _file(home).unlink()
    folder.rmdir()
    folder.write_text("a file where the folder should be")
    assert runs.save(FACTS, MACHINE, RUN) == (RUN,)
    assert runs.load(FACTS, MACHINE) == ()
