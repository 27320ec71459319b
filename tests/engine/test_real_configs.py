"""The facts of real models: as stored in tests/data, and as everybody knows them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))

import make_models

from llmchat.domain.model import ModelFacts

GIB = 1024**3
LONG = 131072
BY_NAME = {make_models.file_name(model_id): model_id for model_id in make_models.IDS}


def stored(name: str) -> ModelFacts:
    return make_models.stored(BY_NAME[f"{name}.json"])


def gb(count: int) -> float:
    return round(count / 1e9, 1)


@pytest.mark.parametrize("model_id", make_models.IDS)
def test_the_engine_finds_what_is_stored(model_id: str) -> None:
    """A change in transformers or in the engine shows here: look at the difference, then run make_models.py."""
    assert make_models.facts(model_id) == make_models.stored(model_id)


def test_there_are_no_other_files() -> None:
    for folder in ("configs", "models"):
        assert {path.name for path in (make_models.HERE / folder).glob("*.json")} == set(BY_NAME)


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("llama-3.1-70b-instruct", 40.0),
        ("llama-3.1-8b-instruct", 16.0),
        ("gemma-3-27b-it", 10.4),
        ("deepseek-v3", 8.6),
        ("llama-4-scout-17b-16e-instruct", 7.1),
        ("gpt-oss-20b", 3.0),
    ],
)
def test_kv_cache_of_131072_tokens(name: str, gib: float) -> None:
    assert round(stored(name).kv_bytes(LONG) / GIB, 1) == gib


def test_a_linear_model_keeps_a_state_beside_its_few_full_layers() -> None:
    """Qwen3-Next: 3.0 GiB for 12 layers of full attention, and 36 states that do not grow: of 32 heads of
    128 x 128 in float32, and of the last 4 of 8192 convolved channels in bfloat16."""
    layers = stored("qwen3-next-80b-a3b-instruct").layers
    assert round(sum(layer.cache.per_token for layer in layers) * LONG / GIB, 1) == 3.0
    assert sorted({layer.cache.constant for layer in layers}) == [0, 32 * 128 * 128 * 4 + 8192 * 4 * 2]
    assert sum(1 for layer in layers if layer.cache.constant) == 36


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("llama-3.1-70b-instruct", 141.1),
        ("llama-4-scout-17b-16e-instruct", 215.5),
        ("wizardlm-13b-v1.2", 26.0),
    ],
)
def test_weights(name: str, size: float) -> None:
    assert gb(stored(name).weight_bytes) == size


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("mixtral-8x7b-instruct-v0.1", 46.7, 12.7),
        ("qwen3-30b-a3b", 30.5, 3.0),
        ("qwen3-next-80b-a3b-instruct", 79.7, 3.6),
        ("deepseek-v3", 671.0, 36.7),
        ("gpt-oss-20b", 20.9, 3.6),
        ("gpt-oss-120b", 116.8, 5.1),
        ("llama-4-scout-17b-16e-instruct", 107.8, 16.1),
    ],
)
def test_parameters_of_mixtures(name: str, total: float, active: float) -> None:
    """In billions. Active ones without the embedding, of which decoding reads one row."""
    facts = stored(name)
    assert round(facts.parameters / 1e9, 1) == total
    assert sum(module.active_bytes for module in facts.modules) / 2e9 == pytest.approx(active, abs=0.051)


@pytest.mark.parametrize(
    ("name", "published"), [("gpt-oss-20b", 13_761_264_768), ("gpt-oss-120b", 65_248_815_744)]
)
def test_mxfp4_as_stored_is_the_published_size_to_the_byte(name: str, published: int) -> None:
    """The rotary table is a buffer and not in the file."""
    modules = [module for module in stored(name).modules if module.kind != "other"]
    assert sum(module.stored or 0 for module in modules) == published


def test_fp8_as_stored() -> None:
    """DeepSeek-V3: one byte a parameter and scales, but for embedding, head and norms in 16 bit, and routers,
    which transformers holds in float32."""
    facts = stored("deepseek-v3")
    layer = facts.layers[60]
    experts, attention = 257 * 3 * 7168 * 2048, 7168 * (1536 + 576 + 16384) + 1536 * 24576 + 512 * 32768
    blocks = 257 * 3 * 56 * 16 + 56 * (12 + 5 + 128) + 12 * 192 + 4 * 256
    rest = 2 * (2 * 7168 + 1536 + 512) + 4 * 256 * (7168 + 1)
    assert layer.stored == experts + attention + 4 * blocks + rest
    assert layer.bytes == 2 * (experts + attention) + rest
    assert facts.modules[-1].stored == facts.modules[-1].bytes


def test_a_vision_tower_is_counted_and_not_used() -> None:
    facts = stored("gemma-3-27b-it")
    idle = {module.name: module.bytes for module in facts.modules if not module.active_bytes}
    assert (
        set(idle)
        == {
            "model.vision_tower",
            "model.multi_modal_projector",
        }
        and sum(idle.values()) > 0.8e9
    )
    assert facts.modules[-1].active_bytes == 262208 * 5376 * 2 and facts.modules[-1].bytes == 0


def test_chunked_and_sliding_layers() -> None:
    scout = [layer.cache.window for layer in stored("llama-4-scout-17b-16e-instruct").layers]
    assert scout == [8192, 8192, 8192, None] * 12
    assert [layer.cache.window for layer in stored("gpt-oss-20b").layers] == [128, None] * 12
    assert [layer.cache.window for layer in stored("gemma-3-27b-it").layers].count(None) == 10
