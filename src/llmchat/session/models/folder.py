"""A model folder: whether it is one, whether it is whole. Reads headers only, and needs no torch."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

from llmchat.errors import ModelError

__all__ = ["CONFIG", "INDEX", "SINGLE", "check_folder", "read_config", "weight_files"]

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
MAX_HEADER = 100_000_000
"""Bytes; the limit of the safetensors format."""
LFS = b"version https://git-lfs.github.com/spec/"
"""How a Git LFS pointer begins: the file that git leaves where the large one was not fetched."""
BITS = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8}
BITS |= {"U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32}
BITS |= {"U64": 64, "I64": 64, "F64": 64, "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
"""Bits an element takes, by dtype in a safetensors header; a dtype that is missing here is not checked."""
AGAIN = "Delete the file and download it again."


def check_folder(folder: Path) -> None:
    """Raises ModelError naming the file that is missing or damaged, with the bytes expected and found."""
    read_config(folder)
    wanted = _tensors_by_file(folder)
    missing = [name for name in wanted if not (folder / name).is_file()]
    if missing:
        names = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise ModelError(
            "Weights are missing",
            f"{len(missing)} of {len(wanted)} weight files are not in {folder}: {names}.",
            "Download the model completely.",
        )
    for name, tensors in wanted.items():
        _check_file(folder / name, tensors)


def read_config(folder: Path) -> dict[str, Any]:
    """The config. Raises ModelError for a folder that is not a model's."""
    if not folder.is_dir():
        raise ModelError(
            "Folder not found", f"{folder} is not a folder.", "Give the folder that holds config.json."
        )
    path = folder / CONFIG
    if not path.is_file():
        raise ModelError(
            "No model in this folder", f"{folder} has no config.json. {_instead(folder)}".strip(), GIVE
        )
    config = _read_json(path)
    if not isinstance(config, dict):
        raise ModelError("Damaged config", f"{path} holds no JSON object.", AGAIN)
    return config


GIVE = "Give a folder in Hugging Face format: config.json, safetensors weights and the tokenizer's files."


def weight_files(folder: Path) -> tuple[str, ...]:
    """Names of the safetensors files that make up the model, there or not. Raises ModelError for other formats."""
    return tuple(_tensors_by_file(folder))


def _tensors_by_file(folder: Path) -> dict[str, frozenset[str]]:
    """File name to the tensors that the index expects in it; for a single file none are known."""
    if (folder / INDEX).is_file():
        return _indexed(folder / INDEX)
    if (folder / SINGLE).is_file():
        return {SINGLE: frozenset()}
    raise ModelError("No safetensors weights", f"{folder} has none. {_instead(folder)}".strip(), GIVE)


def _indexed(path: Path) -> dict[str, frozenset[str]]:
    index = _read_json(path)
    weight_map = index.get("weight_map") if isinstance(index, dict) else None
    files: dict[str, set[str]] = {}
    if isinstance(weight_map, dict):
        for tensor, name in weight_map.items():
            if not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts:
                raise ModelError(
                    "Damaged index", f"{path} places {tensor} in {name!r}, which is no file name.", AGAIN
                )
            files.setdefault(name, set()).add(tensor)
    if not files:
        raise ModelError("Damaged index", f"{path} has no weight_map.", AGAIN)
    return {name: frozenset(files[name]) for name in sorted(files)}


def _instead(folder: Path) -> str:
    """What the folder holds in place of what is needed."""
    kinds = (
        ("adapter_config.json", "It holds a LoRA adapter, which needs its base model and is not supported."),
        ("model_index.json", "It holds a diffusers pipeline, which is not a language model."),
        ("*.gguf", "It holds GGUF files, a format that llmchat does not run."),
        ("*.bin", "It holds its weights as pickle files, which can run code when they are read."),
        ("*.pt", "It holds its weights as pickle files, which can run code when they are read."),
        ("*.pth", "It holds its weights as pickle files, which can run code when they are read."),
        ("snapshots", "It is a folder of the hub cache: give the model's hub id instead."),
    )
    return next((words for pattern, words in kinds if any(folder.glob(pattern))), "")


def _check_file(path: Path, expected: frozenset[str]) -> None:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            if LFS.startswith(start) and len(start) == 8:
                raise _pointer(path, start + file.read(1024))
            if size < 8:
                raise _cut(path, size, None)
            length = struct.unpack("<Q", start)[0]
            if length > MAX_HEADER:
                raise _damaged(path, f"its header would be {length:,} bytes long, which no safetensors file has")
            if 8 + length > size:
                raise _cut(path, size, 8 + length)
            header = json.loads(file.read(length))
        end = 8 + length + _contiguous(path, header)
    except OSError as error:
        raise ModelError(
            "Weights cannot be read",
            f"{path}: {error.strerror or error}.",
            "Check the file's rights and the disk.",
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged(path, "its header is not what safetensors writes") from error
    if size < end:
        raise _cut(path, size, end)
    if size > end:
        raise _damaged(path, f"{end:,} bytes are expected and {size:,} are there")
    lacking = sorted(expected - header.keys())
    if lacking:
        raise _damaged(path, f"{len(lacking)} tensors that {INDEX} promises are not in it, such as {lacking[0]}")


def _contiguous(path: Path, header: dict[str, Any]) -> int:
    """Bytes of all tensors. They must follow one another without gaps, and be as large as their shapes say."""
    place = 0
    entries = [(name, entry) for name, entry in header.items() if name != "__metadata__"]
    for name, entry in sorted(entries, key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        bits = BITS.get(entry["dtype"])
        if begin != place or end < begin:
            raise _damaged(path, f"{name} begins at byte {begin:,} of the data instead of {place:,}")
        if bits and (end - begin) * 8 != math.prod(entry["shape"]) * bits:
            raise _damaged(path, f"{name} takes {end - begin:,} bytes, which is not what its shape says")
        place = end
    return place


def _read_json(path: Path) -> Any:
    try:
        data = path.read_bytes()
        if data.startswith(LFS):
            raise _pointer(path, data)
        return json.loads(data)
    except OSError as error:
        raise ModelError(
            "File cannot be read", f"{path}: {error.strerror or error}.", "Check the file's rights and the disk."
        ) from error
    except ValueError as error:
        raise ModelError("Damaged file", f"{path} is not JSON: {error}.", AGAIN) from error


def _cut(path: Path, found: int, expected: int | None) -> ModelError:
    what = f"{expected:,} bytes are expected" if expected is not None else "at least 8 bytes are expected"
    return _damaged(path, f"it is cut off: {what} and {found:,} are there")


def _damaged(path: Path, why: str) -> ModelError:
    return ModelError("Damaged weights", f"{path.name} in {path.parent}: {why}.", AGAIN)


def _pointer(path: Path, text: bytes) -> ModelError:
    size = next(
        (line[5:] for line in text.decode("utf-8", "replace").splitlines() if line.startswith("size ")), ""
    )
    expected = f"the {int(size):,} bytes that it stands for" if size.isdecimal() else "the file that it stands for"
    return ModelError(
        "Weights were not fetched",
        f"{path.name} in {path.parent} is a Git LFS pointer of {path.stat().st_size:,} bytes, not {expected}.",
        "Run `git lfs pull` in that folder, or download the model by its hub id.",
    )
