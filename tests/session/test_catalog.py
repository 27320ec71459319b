from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from llmchat.errors import ModelError, UsageError
from llmchat.session.models import catalog
from llmchat.session.saved.settings import Settings

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
COMMIT = "c" * 40


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")


def safetensors(tensors: dict[str, int]) -> bytes:
    """A file of one-byte elements: tensor name to bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name, size in tensors.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(place)


def model(folder: Path, config: dict[str, Any] | None = None, *, shards: int = 1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(LLAMA if config is None else config))
    if shards == 1:
        (folder / "model.safetensors").write_bytes(safetensors({"a": 10, "b": 20}))
        return folder
    weight_map = {}
    for number in range(1, shards + 1):
        name = f"model-0000{number}-of-0000{shards}.safetensors"
        (folder / name).write_bytes(safetensors({f"t{number}": 10}))
        weight_map[f"t{number}"] = name
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def cached(model_id: str, config: dict[str, Any] | None = None, *, ref: str = "main", shards: int = 1) -> Path:
    root = Path(constants.HF_HUB_CACHE) / ("models--" + model_id.replace("/", "--"))
    if ref:
        (root / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (root / "refs" / ref).write_text(COMMIT)
    return model(root / "snapshots" / COMMIT, config, shards=shards)


# --- what can be opened


def test_the_embedded_model_is_first_even_when_nothing_is_there() -> None:
    found = catalog.models(Settings())
    assert [ref.kind for ref in found] == ["embedded"]
    assert not found[0].present and found[0].size and found[0].note


def test_the_embedded_model_once_converted() -> None:
    folder = model(catalog.embedded_folder())
    ref = catalog.models(Settings())[0]
    assert (ref.present, ref.note) == (True, "")
    assert ref.size == (folder / "model.safetensors").stat().st_size


def test_the_hub_cache_holds_language_models_and_other_things() -> None:
    cached("org/whole")
    cached("gpt2", {"architectures": ["GPT2LMHeadModel"]})
    cached("org/Vision", {"architectures": ["Gemma3ForConditionalGeneration"]}, shards=2)
    cached("org/bert", {"architectures": ["BertModel"]})
    cached("org/whisper", {"architectures": ["WhisperForConditionalGeneration"], "is_encoder_decoder": True})
    cached("org/broken").joinpath("config.json").write_text("{")
    cached("org/part", shards=3).joinpath("model-00002-of-00003.safetensors").unlink()
    (Path(constants.HF_HUB_CACHE) / "models--org--empty").mkdir()
    (Path(constants.HF_HUB_CACHE) / "datasets--org--data").mkdir()
    found = {ref.id: ref for ref in catalog.models(Settings())[1:]}
    assert list(found) == ["gpt2", "org/part", "org/Vision", "org/whole"]
    assert found["org/whole"].present and found["org/whole"].size and found["org/whole"].revision == ""
    assert not found["org/part"].present and found["org/part"].note


@pytest.mark.parametrize(
    ("ref", "revision"), [("main", ""), ("v2", "v2"), ("refs/pr/1", "refs/pr/1"), ("", COMMIT)]
)
def test_the_revision_of_a_cached_model(ref: str, revision: str) -> None:
    cached("org/m", ref=ref)
    assert catalog.models(Settings())[1].revision == revision
    assert catalog.resolve("org/m", revision).present


def test_local_folders_of_the_settings_and_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(tmp_path / "m" / "Zeta")
    model(tmp_path / "m" / "org" / "alpha")
    model(tmp_path / "m" / ".hidden")
    (tmp_path / "m" / "notes").mkdir()
    monkeypatch.chdir(model(tmp_path / "here"))
    found = catalog.models(Settings(model_folders=(str(tmp_path / "m"), str(tmp_path / "nowhere"))))
    assert [ref.title for ref in found[1:]] == ["alpha", "here", "Zeta"]
    assert {ref.kind for ref in found[1:]} == {"local"}
    assert found[1].id == str(tmp_path / "m" / "org" / "alpha")


# --- what a name means


@pytest.mark.parametrize(
    ("text", "revision", "model_id", "expected"),
    [
        ("Qwen/Qwen3-4B", "", "Qwen/Qwen3-4B", ""),
        ("gpt2", "main", "gpt2", "main"),
        ("https://huggingface.co/Qwen/Qwen3-4B", "", "Qwen/Qwen3-4B", ""),
        ("https://huggingface.co/Qwen/Qwen3-4B/tree/v1", "", "Qwen/Qwen3-4B", "v1"),
        (" org/m.x_y-1 ", "", "org/m.x_y-1", ""),
    ],
)
def test_hub_ids(text: str, revision: str, model_id: str, expected: str) -> None:
    ref = catalog.resolve(text, revision)
    assert (ref.kind, ref.id, ref.revision, ref.present) == ("hub", model_id, expected, False)


@pytest.mark.parametrize(
    "text", ["", "a/b/c", "org/na me", "org/--x", "org/a..b", "-x", "https://example.com/a/b"]
)
def test_what_is_neither_a_folder_nor_a_hub_id(text: str) -> None:
    with pytest.raises(ModelError, match="neither a folder nor a hub id"):
        catalog.resolve(text, "")


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = model(tmp_path / "org" / "m")
    monkeypatch.chdir(tmp_path)
    for text in (str(folder), "org/m", "./org/m", "org/m/"):
        ref = catalog.resolve(text, "")
        assert (ref.kind, ref.id, ref.present) == ("local", str(folder), True)
    assert catalog.resolve("SmolLM2", "").kind == "embedded"


@pytest.mark.parametrize("text", ["smollm2", "./m"])
def test_a_revision_where_there_are_none(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model(tmp_path / "m")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="v1"):
        catalog.resolve(text, "v1")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([], "no config.json"),
        (["adapter_config.json"], "LoRA"),
        (["model_index.json"], "diffusers"),
        (["x.gguf"], "GGUF"),
    ],
)
def test_a_folder_without_a_config(files: list[str], words: str, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).write_text("{}")
    with pytest.raises(ModelError, match=words):
        catalog.resolve(str(tmp_path) + "/", "")


def test_a_path_that_is_not_there_and_one_that_is_a_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a folder"):
        catalog.resolve(str(tmp_path / "nowhere"), "")
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match="GGUF files are not run"):
        catalog.resolve(str(tmp_path / "m.gguf"), "")


# --- whole or damaged


@pytest.mark.parametrize("shards", [1, 3])
def test_a_whole_folder(tmp_path: Path, shards: int) -> None:
    catalog.check_folder(model(tmp_path, shards=shards))


def problem(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        catalog.check_folder(folder)
    return f"{caught.value.problem.message} {caught.value.problem.remedy}"


def test_a_truncated_file_is_named_with_its_bytes(tmp_path: Path) -> None:
    file = model(tmp_path, shards=2) / "model-00002-of-00002.safetensors"
    whole = file.read_bytes()
    for size in (len(whole) - 1, 12, 3, 0):
        file.write_bytes(whole[:size])
        text = problem(tmp_path)
        assert file.name in text and "cut off" in text and f"{size} are there" in text
    file.write_bytes(whole[:-1])
    assert f"{len(whole)} bytes are expected" in problem(tmp_path)


def test_a_file_that_is_too_long(tmp_path: Path) -> None:
    file = model(tmp_path) / "model.safetensors"
    file.write_bytes(file.read_bytes() + b"x")
    assert "bytes are expected" in problem(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    (model(tmp_path, shards=3) / "model-00002-of-00003.safetensors").unlink()
    text = problem(tmp_path)
    assert "1 of 3" in text and "model-00002-of-00003.safetensors" in text


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<Q", 2**40) + b"x" * 100,
        struct.pack("<Q", 10) + b"not json!!" + b"x" * 100,
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 8) + b'{"a": 1}',
        struct.pack("<Q", 12) + b'{"a": {"x":1}}'[:12],
        b"\x80\x02}q\x00" * 100,
    ],
)
def test_a_file_that_is_no_safetensors_file(tmp_path: Path, data: bytes) -> None:
    (model(tmp_path) / "model.safetensors").write_bytes(data)
    assert "model.safetensors" in problem(tmp_path)


def header(entries: dict[str, Any], data: int) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data)


@pytest.mark.parametrize(
    ("entries", "data", "words"),
    [
        ({"a": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]}}, 6, "instead of 0"),
        ({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]}}, 8, "shape"),
        ({"a": {"dtype": "U8", "shape": [4], "data_offsets": [4, 0]}}, 4, "begins"),
    ],
)
def test_a_header_that_contradicts_itself(tmp_path: Path, entries: dict[str, Any], data: int, words: str) -> None:
    (model(tmp_path) / "model.safetensors").write_bytes(header(entries, data))
    assert words in problem(tmp_path)


def test_an_empty_tensor_and_an_unknown_dtype_are_fine(tmp_path: Path) -> None:
    entries = {
        "scalar": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
        "empty": {"dtype": "F32", "shape": [0, 3], "data_offsets": [4, 4]},
        "odd": {"dtype": "F2_NEW", "shape": [5], "data_offsets": [4, 6]},
    }
    (model(tmp_path) / "model.safetensors").write_bytes(header(entries, 6))
    catalog.check_folder(tmp_path)


def test_a_shard_without_a_tensor_that_the_index_promises(tmp_path: Path) -> None:
    file = model(tmp_path, shards=2) / "model-00001-of-00002.safetensors"
    file.write_bytes(safetensors({"other": 10}))
    assert "t1" in problem(tmp_path)


@pytest.mark.parametrize(
    "index", ["{", "[]", "{}", '{"weight_map": {"a": "../x"}}', '{"weight_map": {"a": 3}}', '{"weight_map": 1}']
)
def test_a_broken_index(tmp_path: Path, index: str) -> None:
    (model(tmp_path, shards=2) / "model.safetensors.index.json").write_text(index)
    assert "index.json" in problem(tmp_path)


def test_a_git_lfs_pointer(tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 4976698672\n"
    (model(tmp_path) / "model.safetensors").write_text(pointer)
    text = problem(tmp_path)
    assert "4,976,698,672" in text and "git lfs pull" in text


def test_pickle_weights_are_refused(tmp_path: Path) -> None:
    (model(tmp_path) / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    assert "pickle" in problem(tmp_path)


@pytest.mark.parametrize("config", ["{", "[]", "version https://git-lfs.github.com/spec/v1\nsize 3\n"])
def test_a_broken_config(tmp_path: Path, config: str) -> None:
    (model(tmp_path) / "config.json").write_text(config)
    assert "config.json" in problem(tmp_path)


@pytest.mark.smollm2
def test_the_package_carries_the_gguf() -> None:
    source = catalog.embedded_source()
    assert source is not None and source.read_bytes()[:4] == b"GGUF"
