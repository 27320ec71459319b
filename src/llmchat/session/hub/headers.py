"""Headers of the weights of a hub model, fetched before the weights: some kilobytes a file, and exact bytes."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from llmchat.errors import LlmchatError, ModelError
from llmchat.session.hub.client import SECONDS, api, translated
from llmchat.session.models.folder import read_config

__all__ = ["HEADERS", "fetch"]

HEADERS = "model.safetensors.headers.json"
"""Beside the config, where the engine looks for it: tensor name to ``{dtype, shape, data_offsets}``."""
MOST_FILES = 256
"""More are not asked for: the formulas do."""
AT_ONCE = 8


def fetch(model_id: str, commit: str, folder: Path, names: Sequence[str]) -> None:
    """Keep the headers of the weight files ``names`` in ``folder``, if its config alone does not tell their bytes.

    Nothing is done when the files are here, and nothing is raised: without headers the config must do.
    """
    target = folder / HEADERS
    wanted = _wanted(folder, names)
    if not wanted or len(wanted) > MOST_FILES or target.is_file():
        return
    with contextlib.suppress(LlmchatError, OSError):
        with translated(model_id, commit), ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(lambda name: _one(model_id, commit, name), wanted))
        part = target.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps({tensor: entry for file in found for tensor, entry in file.items()}))
        part.replace(target)


def _wanted(folder: Path, names: Sequence[str]) -> Sequence[str]:
    """All files of a quantized model; one where only the dtype is not known; none where the config says it all."""
    try:
        config = read_config(folder)
    except ModelError:
        return ()
    text = config.get("text_config")
    parts = [config, *([text] if isinstance(text, dict) else [])]
    if all((folder / name).is_file() for name in names):
        return ()
    if any(part.get("quantization_config") for part in parts):
        return names
    if any(part.get("dtype") or part.get("torch_dtype") for part in parts):
        return ()
    return names[:1]


def _one(model_id: str, commit: str, name: str) -> dict[str, dict[str, Any]]:
    # Not the client's get_safetensors_metadata, which draws a progress bar.
    metadata = api().parse_safetensors_file_metadata(model_id, name, revision=commit, timeout=SECONDS)
    return {
        tensor: {"dtype": info.dtype, "shape": list(info.shape), "data_offsets": list(info.data_offsets)}
        for tensor, info in metadata.tensors.items()
    }
