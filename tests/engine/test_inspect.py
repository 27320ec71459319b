"""Facts against real models: every byte of weights and of KV cache, for architectures that differ."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    BitsAndBytesConfig,
    DynamicCache,
    LlamaConfig,
    Mistral3Config,
)

from llmchat.domain.model import ModelFacts
from llmchat.engine.hardware import memory
from llmchat.engine.model import checkpoint, kvcache
from llmchat.engine.model.inspect import inspect
from llmchat.errors import ModelError

from .architectures import CONFIGS, SIZES, WINDOW


@pytest.fixture(scope="module", params=CONFIGS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("architectures") / name
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(CONFIGS[name], dtype=torch.bfloat16).save_pretrained(target)
    return target


@pytest.fixture(scope="module")
def facts(folder: Path, name: str) -> ModelFacts:
    return inspect(folder, name)


@pytest.fixture(scope="module")
def model(folder: Path) -> torch.nn.Module:
    loaded: torch.nn.Module = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    return loaded


def test_bytes_are_the_real_models(facts: ModelFacts, model: torch.nn.Module) -> None:
    assert {"cpu": facts.weight_bytes} == memory.weights(model)
    assert facts.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert facts.unknown == ()


def test_each_module_has_the_real_modules_bytes(facts: ModelFacts, model: torch.nn.Module) -> None:
    for unit in facts.layers:
        assert {"cpu": unit.bytes} == memory.weights(model.get_submodule(unit.name)), unit.name
        assert 0 < unit.largest_tensor <= unit.bytes


def test_kinds_and_order(facts: ModelFacts, name: str) -> None:
    kinds = [module.kind for module in facts.modules]
    assert kinds[0] == "embedding" and kinds[-1] == "head"
    assert len(facts.layers) == (CONFIGS[name].num_hidden_layers)
    assert [int(layer.name.rsplit(".", 1)[1]) for layer in facts.layers] == list(range(len(facts.layers)))


def test_kv_cache_is_the_real_ones(facts: ModelFacts, model: torch.nn.Module) -> None:
    """Prefill, then a decode step, after which a sliding layer's storage holds exactly its window."""
    for prompt in (3, 20):
        cache = DynamicCache(config=model.config)
        argument = {kvcache.cache_argument(model): cache}
        with torch.inference_mode():
            model(input_ids=torch.ones(1, prompt, dtype=torch.long), use_cache=True, **argument)
            model(input_ids=torch.ones(1, 1, dtype=torch.long), use_cache=True, **argument)
        real = [
            sum(tensor.untyped_storage().nbytes() for tensor in kvcache.tensors(layer)) for layer in cache.layers
        ]
        assert [layer.cache.size(prompt + 1) for layer in facts.layers] == real
        assert facts.kv_bytes(prompt + 1) == sum(real)


def test_linear_parameters_are_those_bitsandbytes_replaces(
    facts: ModelFacts, folder: Path, model: torch.nn.Module
) -> None:
    quantized = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, quantization_config=BitsAndBytesConfig(load_in_8bit=True), device_map="cpu"
    )
    replaced = {
        parameter_name: parameter.numel()
        for parameter_name, parameter in quantized.named_parameters()
        if parameter.dtype == torch.int8
    }
    for unit in facts.modules:
        count = sum(size for key, size in replaced.items() if key.startswith(unit.name + "."))
        assert unit.linear_params == count, unit.name
        assert unit.linear_bytes == 2 * count
    assert replaced


def test_placement_by_these_names_loads(facts: ModelFacts, folder: Path) -> None:
    loaded = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, device_map={module.name: "cpu" for module in facts.modules}
    )
    assert {parameter.device.type for parameter in loaded.parameters()} == {"cpu"}


def by_name(facts: ModelFacts) -> dict[str, int]:
    return {module.name: module.active_bytes for module in facts.modules}


@pytest.mark.parametrize("name", ["llama-tied"], indirect=True)
def test_a_tied_head_is_counted_once_and_read_whole(facts: ModelFacts) -> None:
    embedding, head = facts.modules[0], facts.modules[-1]
    assert (embedding.bytes, head.bytes) == (128 * 64 * 2, 0)
    assert (embedding.active_bytes, head.active_bytes) == (64 * 2, 128 * 64 * 2)
    assert facts.tied == ((embedding.name, head.name),)


@pytest.mark.parametrize("name", ["mixtral"], indirect=True)
def test_experts_are_active_by_the_share_that_is_chosen(facts: ModelFacts) -> None:
    experts = 4 * 3 * 64 * 96 * 2
    layer = facts.layers[0]
    assert layer.bytes - layer.active_bytes == experts // 2


@pytest.mark.parametrize("name", ["gemma3"], indirect=True)
def test_sliding_and_full_layers(facts: ModelFacts) -> None:
    assert [layer.cache.window for layer in facts.layers] == [WINDOW] * 5 + [None, WINDOW]


def test_the_dtype_comes_from_the_headers_where_the_config_is_silent(tiny: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny, tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    del config["dtype"]
    (folder / "config.json").write_text(json.dumps(config))
    assert inspect(folder, "copy").dtype == "bfloat16"
    for file in folder.glob("*.safetensors*"):
        file.unlink()
    facts = inspect(folder, "copy")
    assert facts.dtype == "float32" and "dtype" in facts.unknown[0]


def test_context_template_and_identity(tiny: Path) -> None:
    facts = inspect(tiny, "some/model", "abc")
    assert (facts.id, facts.revision, facts.architecture) == ("some/model", "abc", "LlamaForCausalLM")
    assert (facts.max_context, facts.has_chat_template, facts.prequantized) == (131072, True, None)


def test_no_chat_template(tiny: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny, tmp_path / "base")
    (folder / "chat_template.jinja").unlink()
    assert inspect(folder, "base").has_chat_template is False


def quantized(tiny: Path, target: Path, settings: dict[str, object]) -> Path:
    """A copy whose config says that its weights are quantized."""
    folder = shutil.copytree(tiny, target)
    config = json.loads((folder / "config.json").read_text()) | {"quantization_config": settings}
    (folder / "config.json").write_text(json.dumps(config))
    for file in folder.glob("*.safetensors"):
        file.unlink()
    return folder


def test_a_quantization_without_a_formula_is_counted_in_16_bit(tiny: Path, tmp_path: Path) -> None:
    facts = inspect(quantized(tiny, tmp_path / "x", {"quant_method": "aqlm"}), "x")
    assert facts.prequantized == "aqlm"
    assert facts.unknown == ("how many bytes the aqlm weights take: they are counted as bfloat16",)
    assert {module.stored for module in facts.modules} == {None}


def test_old_bitsandbytes_configs_say_only_how_many_bits(tiny: Path, tmp_path: Path) -> None:
    assert inspect(quantized(tiny, tmp_path / "x", {"load_in_4bit": True}), "x").prequantized == "bitsandbytes"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "nobody_knows", "architectures": ["NobodyForCausalLM"]}, "NobodyForCausalLM"),
        ({"model_type": "bert", "architectures": ["BertModel"], "is_decoder": False}, "BertModel"),
        ({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]}, "T5ForConditionalGeneration"),
        (
            {"model_type": "own", "architectures": ["OwnLM"], "auto_map": {"AutoConfig": "own.OwnConfig"}},
            "trust_remote_code",
        ),
    ],
)
def test_unsupported_models_are_named(config: dict[str, object], words: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=words):
        inspect(tmp_path, "x")


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_folder_without_a_good_config(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(ModelError, match=r"config\.json"):
        inspect(tmp_path, "x")


@pytest.mark.parametrize(
    "settings",
    [
        {"load_in_8bit": True},
        {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
        {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
    ],
)
def test_a_quantized_checkpoint_is_known_in_16_bit_and_as_stored(
    settings: dict[str, object], tiny: Path, tmp_path: Path
) -> None:
    """By its headers, by headers that came before the weights, by formula. Wide layers: what bitsandbytes keeps
    beside each matrix, whatever its size, does not count there."""
    config = LlamaConfig(**SIZES | {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2})
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(tmp_path / "plain")
    folder = tmp_path / "quantized"
    real = AutoModelForCausalLM.from_pretrained(
        tmp_path / "plain",
        dtype=torch.bfloat16,
        quantization_config=BitsAndBytesConfig(**settings),
        device_map="cpu",
    )
    real.save_pretrained(folder)
    shutil.copy(tiny / "tokenizer_config.json", folder)
    plain, facts = inspect(tmp_path / "plain", "x"), inspect(folder, "x")
    assert (facts.prequantized, facts.unknown) == ("bitsandbytes", ())
    assert facts.weight_bytes == plain.weight_bytes
    assert {module.linear_params for module in facts.modules} == {0}
    assert as_stored(facts) == pytest.approx(memory.weights(real)["cpu"], rel=0.01)
    (folder / checkpoint.HEADERS).write_text(json.dumps(checkpoint.check(folder)))
    (folder / "model.safetensors").unlink()
    assert inspect(folder, "x") == facts
    (folder / checkpoint.HEADERS).unlink()
    by_formula = inspect(folder, "x")
    assert "exact bytes" in by_formula.unknown[0]
    assert as_stored(by_formula) == pytest.approx(as_stored(facts), rel=0.01)
    for module in by_formula.layers:
        assert module.stored is not None and module.stored_active == module.stored


def as_stored(facts: ModelFacts) -> int:
    return sum(module.bytes if module.stored is None else module.stored for module in facts.modules)


def test_a_config_alone_says_what_it_does_not_know(tiny: Path, tmp_path: Path) -> None:
    shutil.copy(tiny / "config.json", tmp_path)
    facts = inspect(tmp_path, "x")
    assert facts.weight_bytes == inspect(tiny, "x").weight_bytes
    assert [text.split(":")[0] for text in facts.unknown] == [
        "the exact bytes of the weights",
        "whether it has a chat template",
    ]


def test_a_multimodal_model_is_placed_by_its_language_model(tmp_path: Path) -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2}
    config = Mistral3Config(
        text_config=SIZES | {"model_type": "mistral", "head_dim": 16},
        vision_config=sizes | {"model_type": "pixtral", "image_size": 28, "patch_size": 14},
    )
    AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16).save_pretrained(tmp_path)
    facts = inspect(tmp_path, "mistral3")
    kinds = {module.name: module.kind for module in facts.modules}
    assert kinds["model.vision_tower"] == "other"
    assert [layer.name for layer in facts.layers] == [f"model.language_model.layers.{i}" for i in range(3)]
    active = {module.name: module.active_bytes for module in facts.modules}
    assert active["model.vision_tower"] == active["model.multi_modal_projector"] == 0
    assert active["model.language_model.norm"] == SIZES["hidden_size"] * 2
    real = AutoModelForImageTextToText.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert {"cpu": facts.weight_bytes} == memory.weights(real)
