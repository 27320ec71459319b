"""The weights on disk: which files, what their headers say, and whether they are whole."""

from __future__ import annotations

import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from llmchat.engine.model.architecture import read_json
from llmchat.errors import ModelError

INDEX = "model.safetensors.index.json"
DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}
"""Floating dtypes in a safetensors header, as torch spells them."""
HEADERS = "model.safetensors.headers.json"
"""The headers alone, fetched from the hub before the weights: tensor name to ``{dtype, shape, data_offsets}``."""
MAX_HEADER = 100_000_000
"""Bytes; the limit of the safetensors format."""


def files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of the model, whether or not they exist. Raises ModelError where there are none."""
    if (folder / INDEX).exists():
        weight_map = read_json(folder / INDEX).get("weight_map", {})
        return tuple(folder / name for name in sorted(set(weight_map.values())))
    if (folder / "model.safetensors").exists():
        return (folder / "model.safetensors",)
    pickles = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern))
    if pickles:
        raise ModelError(
            "Weights are pickle files",
            f"{folder} holds its weights as {pickles[0]}, a format that can run code when it is read.",
            "Choose a revision with safetensors weights, or convert the model.",
        )
    raise ModelError("No weights", f"{folder} holds no safetensors weights.", "Download the model completely.")


def header(path: Path) -> dict[str, Any]:
    """Tensor name to ``{dtype, shape, data_offsets}``. Raises ModelError naming a file that is not whole."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            if length > min(MAX_HEADER, size - 8):
                raise ValueError("its header is cut off")
            entries: dict[str, Any] = json.loads(file.read(length))
    except FileNotFoundError:
        raise ModelError(
            "Weights are missing", f"{path} does not exist.", "Download the model completely."
        ) from None
    except (OSError, ValueError, struct.error) as error:
        raise ModelError(
            "Damaged weights", f"{path} is not a safetensors file: {error}.", "Delete and download it again."
        ) from error
    entries.pop("__metadata__", None)
    end = 8 + length + max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    if size < end:
        raise ModelError(
            "Damaged weights",
            f"{path} is cut off: {size:,} of {end:,} bytes are there.",
            "Delete the file and download it again.",
        )
    return entries


def check(folder: Path) -> dict[str, Any]:
    """The headers of all files together. Raises ModelError naming the file that is missing or damaged."""
    return {name: entry for path in files(folder) for name, entry in header(path).items()}


def headers(folder: Path) -> dict[str, Any]:
    """Of the weights that are here, else those fetched before them; empty where neither are."""
    try:
        return check(folder)
    except ModelError:
        return read_json(folder / HEADERS) if (folder / HEADERS).is_file() else {}


def size(entry: dict[str, Any]) -> int:
    """Bytes of a tensor."""
    start, end = entry["data_offsets"]
    return int(end - start)


def config_dtype(config: Any) -> torch.dtype | None:
    """What the config says of most weights; None where it is silent."""
    for part in (config, config.get_text_config(decoder=True)):
        dtype = getattr(part, "dtype", None)
        if dtype is not None:
            return dtype if isinstance(dtype, torch.dtype) else getattr(torch, str(dtype))
    return None


def headers_dtype(entries: dict[str, Any]) -> torch.dtype | None:
    """The floating dtype of most bytes; None where there are none."""
    sizes: Counter[str] = Counter()
    for entry in entries.values():
        sizes[entry["dtype"]] += size(entry)
    known = [name for name, _ in sizes.most_common() if name in DTYPES]
    return getattr(torch, DTYPES[known[0]]) if known else None
