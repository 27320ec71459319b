"""Headers of weights that are not here yet."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import Hub, Repo, serving
from huggingface_hub import constants, hf_api

from llmchat.session import hub
from llmchat.session.hub import headers
from llmchat.session.models import facts

QUANTIZED: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "quantization_config": {"quant_method": "fp8"},
}
PLAIN: dict[str, object] = {"architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16"}
SILENT: dict[str, object] = {"architectures": ["GPT2LMHeadModel"]}
FILES = {name: [4, size] for name, size in (("a", 8), ("b", 2**20))}


def shard(tensor: str, shape: list[int]) -> bytes:
    size = shape[0] * shape[1]
    header = json.dumps({tensor: {"dtype": "F8_E4M3", "shape": shape, "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(size)


def repo(config: dict[str, object]) -> Repo:
    shards = {f"{tensor}.safetensors": shard(tensor, shape) for tensor, shape in FILES.items()}
    index = {"weight_map": {tensor: f"{tensor}.safetensors" for tensor in FILES}}
    files = {"config.json": config, "model.safetensors.index.json": index}
    return Repo({name: json.dumps(value).encode() for name, value in files.items()} | shards)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path / "home"))
    broken = repo(QUANTIZED)
    broken.files["b.safetensors"] = b"no safetensors"
    repos = {"o/fp8": repo(QUANTIZED), "o/plain": repo(PLAIN), "o/silent": repo(SILENT), "o/broken": broken}
    with serving(repos) as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        monkeypatch.setattr(hf_api.api, "endpoint", running.url)
        template = running.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield running


def fetched(model: str) -> dict[str, object] | None:
    file = hub.fetch_config(model, "") / headers.HEADERS
    found: dict[str, object] | None = json.loads(file.read_text()) if file.is_file() else None
    return found


def test_those_of_a_quantized_model_come_first(server: Hub, capfd: pytest.CaptureFixture[str]) -> None:
    assert fetched("o/fp8") == {
        tensor: {"dtype": "F8_E4M3", "shape": shape, "data_offsets": [0, shape[0] * shape[1]]}
        for tensor, shape in FILES.items()
    }
    asked = server.fetched("a.safetensors")
    fetched("o/fp8")
    assert server.fetched("a.safetensors") == asked == 1
    assert capfd.readouterr() == ("", "")


def test_a_config_that_says_it_all_needs_none(server: Hub) -> None:
    assert fetched("o/plain") is None
    assert not server.fetched("a.safetensors")


def test_one_header_tells_the_dtype(server: Hub) -> None:
    found = fetched("o/silent")
    assert found is not None and set(found) == {"a"}


def test_without_them_the_config_does(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetched("o/broken") is None
    monkeypatch.setattr(headers, "MOST_FILES", 1)
    assert fetched("o/fp8") is None


def test_facts_are_found_anew_once_headers_are_here(server: Hub) -> None:
    folder = hub.fetch_config("o/plain", "")
    before = facts.key(folder)
    (folder / headers.HEADERS).write_text("{}")
    assert facts.key(folder) != before
