"""From a folder to a config, a class and an empty model: what transformers knows, with errors for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

from llmchat.errors import ModelError

CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")
"""Names under which configs keep the longest context, the commonest first."""

WRITERS = ("CausalLM", "LMHead", "ConditionalGeneration")
"""In the class names of models that continue text; a BertModel has such a config, but no head to write with."""


def read_json(path: Path) -> dict[str, Any]:
    """Raises ModelError naming the file when it is missing or not a JSON object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(
            "Not a model folder",
            f"{path.parent} has no {path.name}.",
            "Choose a folder that holds a Hugging Face model: config.json, safetensors weights, tokenizer files.",
        ) from None
    except (OSError, ValueError) as error:
        raise ModelError(
            "Damaged model file", f"{path} cannot be read: {error}.", "Download or copy the model again."
        ) from error
    if not isinstance(value, dict):
        raise ModelError("Damaged model file", f"{path} is not a JSON object.", "Download the model again.")
    return value


def read_config(folder: Path) -> Any:
    """The transformers config of a folder. Raises ModelError for unknown architectures and for remote code."""
    raw = read_json(folder / "config.json")
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise _unsupported(folder, raw, str(error)) from error
    classes = raw.get("architectures") or ["CausalLM"]
    writes = any(word in name for name in classes for word in WRITERS)
    if not writes or auto_class(config) is None:
        raise _unsupported(folder, raw, "It is not a model that continues text.")
    return config


def auto_class(config: Any) -> Any:
    """The auto class that builds and loads this model, multimodal ones too; None where there is none."""
    classes = (AutoModelForCausalLM, AutoModelForImageTextToText)
    return next((auto for auto in classes if type(config) in auto._model_mapping), None)


def _unsupported(folder: Path, raw: dict[str, Any], reason: str) -> ModelError:
    name = ", ".join(raw.get("architectures") or ()) or raw.get("model_type") or "unknown"
    if "auto_map" in raw:
        return ModelError(
            "Model needs its own code",
            f"{name} in {folder} is defined by Python code that comes with the model (trust_remote_code); "
            "llmchat does not run such code.",
            "Choose a model whose architecture transformers itself knows.",
            detail=reason,
        )
    return ModelError(
        "Architecture not supported",
        f"transformers {_version()} cannot build {name} in {folder} as a text model.",
        "Choose another model, or update transformers if the architecture is newer than it.",
        detail=reason,
    )


def _version() -> str:
    import transformers

    return str(transformers.__version__)


def text_config(config: Any) -> Any:
    """The part of a multimodal config that is about the language model."""
    return config.get_text_config(decoder=True)


def max_context(config: Any) -> int | None:
    text = text_config(config)
    values = (getattr(text, key, None) for key in CONTEXT_KEYS)
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def attention_size(text: Any) -> int | None:
    """Numbers of one token's keys and values in one layer, expanded for every query head; None without heads."""
    heads = getattr(text, "num_attention_heads", None)
    if not isinstance(heads, int) or heads < 1:
        return None
    usual = getattr(text, "head_dim", None) or text.hidden_size // heads
    keys, values = getattr(text, "qk_head_dim", None) or usual, getattr(text, "v_head_dim", None) or usual
    return int(heads * (keys + values))


def empty_model(config: Any, dtype: torch.dtype) -> Any:
    """The model on ``meta``: modules, shapes and dtypes, no memory."""
    try:
        with torch.device("meta"):
            return auto_class(config).from_config(config, dtype=dtype).eval()
    except Exception as error:
        raise ModelError(
            "Model cannot be built",
            f"transformers {_version()} fails to build a {config.model_type} model from this config: {error}",
            "Check config.json, or choose another model.",
        ) from error


def has_chat_template(folder: Path) -> bool:
    """Looks at the tokenizer's files; loads no tokenizer."""
    if (folder / "chat_template.jinja").exists() or (folder / "chat_template.json").exists():
        return True
    settings = folder / "tokenizer_config.json"
    return settings.exists() and bool(read_json(settings).get("chat_template"))
