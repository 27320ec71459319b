"""Model facts that the engine found out once, kept as JSON: planning again needs no engine."""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from importlib import metadata
from pathlib import Path

import msgspec

from llmchat import __version__
from llmchat.domain.model import ModelFacts
from llmchat.session import paths

_DESCRIBING = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "model.safetensors.index.json",
    "model.safetensors.headers.json",
)
_MAX_HEADER = 100 * 2**20
"""Bytes; the format's own limit for the JSON header of a safetensors file."""


def key(folder: Path) -> str:
    """Changes with everything that the facts depend on: the describing files, the headers of the weights (of a
    hub snapshot its commit stands for them, so that they need not be here yet), transformers and llmchat."""
    digest = hashlib.sha256(f"{__version__} {_version('transformers')}".encode())
    for name in _DESCRIBING:
        path = folder / name
        if path.is_file():
            digest.update(name.encode() + path.read_bytes())
    if folder.parent.name == "snapshots":
        digest.update(folder.name.encode())
    else:
        for path in sorted(folder.glob("*.safetensors")):
            digest.update(path.name.encode() + _header(path))
    return digest.hexdigest()[:32]


def load(folder: Path, model_id: str, revision: str) -> ModelFacts | None:
    """The kept facts of this folder, under the name asked for now; None when there are none."""
    try:
        facts = msgspec.json.decode(_file(folder).read_bytes(), type=ModelFacts)
    except (OSError, msgspec.DecodeError):
        return None
    return msgspec.structs.replace(facts, id=model_id, revision=revision)


def save(folder: Path, facts: ModelFacts) -> None:
    """Keep them; a cache that cannot be written is no error."""
    with contextlib.suppress(OSError):
        target = _file(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(msgspec.json.encode(facts))
        part.replace(target)


def _file(folder: Path) -> Path:
    return paths.cache_dir() / "facts" / f"{key(folder)}.json"


def _header(path: Path) -> bytes:
    """The JSON header of a safetensors file; what can be read of it where the file is damaged."""
    with path.open("rb") as file:
        size = file.read(8)
        if len(size) < 8:
            return size
        return file.read(min(struct.unpack("<Q", size)[0], _MAX_HEADER))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
