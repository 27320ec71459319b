"""Writes models/*.json: facts of real models, made by the engine from their configs. No weights, no network.

python tests/data/make_models.py
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from llmchat.domain.model import ModelFacts

HERE = Path(__file__).parent
IDS = (
    "deepseek-ai/DeepSeek-V3",
    "google/gemma-3-27b-it",
    "HuggingFaceTB/SmolLM2-135M-Instruct",
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.1-70B-Instruct",
    "meta-llama/Llama-3.1-405B-Instruct",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "openai-community/gpt2",
    "openai/gpt-oss-20b",
    "openai/gpt-oss-120b",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "WizardLMTeam/WizardLM-13B-V1.2",
)
WITHOUT_TEMPLATE = ("openai-community/gpt2", "WizardLMTeam/WizardLM-13B-V1.2")
"""Their tokenizers bring no chat template."""


def file_name(model_id: str) -> str:
    return model_id.rsplit("/", 1)[-1].lower() + ".json"


def facts(model_id: str) -> ModelFacts:
    """By the engine, from the config and a tokenizer's settings that say only whether there is a template."""
    from llmchat.engine.model.inspect import inspect

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copy(HERE / "configs" / file_name(model_id), folder / "config.json")
        settings = {} if model_id in WITHOUT_TEMPLATE else {"chat_template": "{{ messages }}"}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        return inspect(folder, model_id)


def stored(model_id: str) -> ModelFacts:
    return msgspec.json.decode((HERE / "models" / file_name(model_id)).read_bytes(), type=ModelFacts)


def written(found: ModelFacts) -> str:
    """As JSON without what is at its default, one module on a line."""
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in _changed(found) if key != "modules"]
    modules = ",\n".join(f"  {json.dumps(dict(_changed(module)))}" for module in found.modules)
    return "{\n" + ",\n".join([*lines, f' "modules": [\n{modules}\n ]']) + "\n}\n"


def _changed(struct: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """Fields and plain values that a reader could not guess."""
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        if field.default is msgspec.NODEFAULT or value != field.default:
            is_struct = isinstance(value, msgspec.Struct)
            yield field.name, dict(_changed(value)) if is_struct else msgspec.to_builtins(value)


def main() -> None:
    for model_id in IDS:
        (HERE / "models" / file_name(model_id)).write_text(written(facts(model_id)))
        sys.stdout.write(f"{model_id}\n")


if __name__ == "__main__":
    main()
