"""A config.json alone: kept in a folder of its own, so that it can be planned for like a model without weights."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from llmchat.errors import ModelError, StorageError
from llmchat.session import paths
from llmchat.session.models.folder import CONFIG, read_config

__all__ = ["is_kept", "keep"]

NOT_IN_A_NAME = re.compile(r"[^\w.-]+")


def keep(place: Path) -> Path:
    """The folder of the kept copy, named after the model. ``place``: a file, or a folder with config.json.

    Raises ModelError for what is no model's config, StorageError when the cache cannot be written.
    """
    place = place.expanduser().absolute()
    file = place / CONFIG if place.is_dir() else place
    name = file.parent.name if file.name == CONFIG else file.stem
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ModelError(
            "No such config", f"{file} cannot be read: {error.strerror or error}.", "Give a model's config.json."
        ) from error
    folder = _root() / hashlib.sha256(content).hexdigest()[:16] / (NOT_IN_A_NAME.sub("-", name) or "model")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG).write_bytes(content)
    except OSError as error:
        raise StorageError(
            "The cache cannot be written",
            f"{folder}: {error.strerror or error}.",
            "Free space or check the rights.",
        ) from error
    try:
        config = read_config(folder)
    except ModelError:
        raise ModelError("Not a config", f"{file} is no JSON object.", "Give a model's config.json.") from None
    if not ("architectures" in config or "model_type" in config):
        raise ModelError(
            "Not a model's config",
            f"{file} names neither architectures nor a model_type.",
            "Give the config.json of a model in Hugging Face format.",
        )
    return folder


def is_kept(folder: Path) -> bool:
    """Whether ``keep`` made this folder."""
    return folder.parent.parent == _root()


def _root() -> Path:
    return (paths.cache_dir() / "configs").resolve()
