"""A model on the hub: what describes it, its weights, and only those of its files that are needed."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from llmchat.domain.memory import gib
from llmchat.errors import ModelError, OfflineError, StorageError
from llmchat.session.hub import headers
from llmchat.session.hub.client import SECONDS, api, translated
from llmchat.session.hub.transfer import transfer
from llmchat.session.models.folder import CONFIG, INDEX, SINGLE, weight_files
from llmchat.session.models.hubcache import hub_cache, keep_ref, repository, snapshot

__all__ = ["download", "fetch_config", "weights_size"]

DESCRIPTION = re.compile(
    r"[^/]+\.(json|jinja|model|tiktoken)|(vocab|merges|added_tokens|special_tokens)\.txt|"
    r"(additional_chat_templates|chat_templates)/[^/]+\.jinja"
)
"""Config, tokenizer and chat template: everything small that the engine reads beside weights."""
UNNEEDED = re.compile(r"pytorch_model.*|.*\.(bin|onnx|h5|msgpack)\.index\.json|(flax|tf)_model.*|consolidated.*")
SPARE = 256 * 2**20
"""Bytes to leave free on the disk."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What the hub says is in a revision."""

    id: str
    revision: str
    commit: str
    sizes: Mapping[str, int]
    """File name to bytes."""


def fetch_config(model_id: str, revision: str) -> Path:
    """Get what describes the model (config, tokenizer, chat template, index of weights, and the headers of weights
    that the config does not tell the size of); returns its folder.

    Without the hub, what is on this disk does.
    """
    try:
        listing = _listing(model_id, revision)
        folder = _described(listing)
        with contextlib.suppress(ModelError):
            headers.fetch(model_id, listing.commit, folder, _weights(listing, folder))
        return folder
    except OfflineError:
        kept = snapshot(model_id, revision)
        if kept is not None and (kept / CONFIG).is_file():
            return kept
        raise


def weights_size(model_id: str, revision: str) -> int:
    """Bytes of the weights that a download would fetch."""
    listing = _listing(model_id, revision)
    folder = _described(listing)
    return sum(listing.sizes[name] for name in _weights(listing, folder))


def download(
    model_id: str,
    revision: str,
    progress: Callable[[int, int], None],
    cancelled: Callable[[], bool],
) -> Path:
    """Get the model's safetensors weights and what describes it; returns its folder.

    ``progress`` gets bytes on this disk and bytes in all; ``cancelled`` is asked ten times a second: then
    Cancelled is raised, and a later download goes on after the files that were finished. When the disk is too
    small, StorageError is raised before anything is fetched.
    """
    try:
        listing = _listing(model_id, revision)
        folder = _described(listing)
    except OfflineError:
        whole = _complete_here(model_id, revision)
        if whole is None:
            raise
        return whole
    wanted = _weights(listing, folder)
    total = sum(listing.sizes[name] for name in wanted)
    missing = {name: listing.sizes[name] for name in wanted if not (folder / name).is_file()}
    here = total - sum(missing.values())
    progress(here, total)
    if missing:
        _check_disk(listing, missing)
        with translated(model_id, revision):
            transfer(model_id, listing.commit, missing, lambda done: progress(here + done, total), cancelled)
        progress(total, total)
    return folder


def _listing(model_id: str, revision: str) -> Listing:
    with translated(model_id, revision):
        info = api().model_info(model_id, revision=revision or None, files_metadata=True, timeout=SECONDS)
        sizes = {file.rfilename: int(file.size or 0) for file in info.siblings or ()}
        return Listing(id=model_id, revision=revision, commit=str(info.sha), sizes=sizes)


def _described(listing: Listing) -> Path:
    """Fetch the small files. Raises ModelError for what is no model in Hugging Face format."""
    if CONFIG not in listing.sizes:
        raise ModelError(
            "Not a model that llmchat can run",
            f"{listing.id} has no config.json. {_instead(listing.sizes)}".strip(),
            "Choose a model in Hugging Face format with safetensors weights.",
        )
    names = [name for name in listing.sizes if DESCRIPTION.fullmatch(name) and not UNNEEDED.fullmatch(name)]
    with translated(listing.id, listing.revision):
        folder = repository(listing.id) / "snapshots" / listing.commit
        missing = {name: listing.sizes[name] for name in names if not (folder / name).is_file()}
        transfer(listing.id, listing.commit, missing, lambda done: None, lambda: False)
        keep_ref(listing.id, listing.revision, listing.commit)
    return folder


def _weights(listing: Listing, folder: Path) -> tuple[str, ...]:
    """The safetensors files to fetch: those of the index, else the single one."""
    if INDEX in listing.sizes:
        names = weight_files(folder)
        lacking = [name for name in names if name not in listing.sizes]
        if lacking:
            raise ModelError(
                "Model incomplete on the hub",
                f"The index of {listing.id} names {lacking[0]}, which is not there.",
                "Choose another revision or model.",
            )
        return names
    if SINGLE in listing.sizes:
        return (SINGLE,)
    raise ModelError(
        "No safetensors weights",
        f"{listing.id} has none. {_instead(listing.sizes)}".strip(),
        "Choose a revision or a copy of the model with safetensors weights.",
    )


def _instead(names: Iterable[str]) -> str:
    """What is there in place of what is needed."""
    kinds = (
        (r"model_index\.json", "It is a diffusers pipeline, which is not a language model."),
        (r"adapter_config\.json", "It is a LoRA adapter, which needs its base model and is not supported."),
        (r".*\.gguf", "It holds GGUF files, a format that llmchat does not run."),
        (r".*\.(bin|pt|pth)", "Its weights are pickle files, which can run code when they are read."),
        (r".*\.(h5|msgpack|onnx)", "Its weights are in a format of other frameworks."),
    )
    return next((words for pattern, words in kinds if any(re.fullmatch(pattern, name) for name in names)), "")


def _check_disk(listing: Listing, missing: Mapping[str, int]) -> None:
    """The hub client would only warn."""
    place = hub_cache()
    free = shutil.disk_usage(next(folder for folder in (place, *place.parents) if folder.is_dir())).free
    needed = sum(missing.values())
    if free < needed + SPARE:
        raise StorageError(
            "Not enough disk space",
            f"{listing.id} still needs {gib(needed)}, and {gib(free)} are free at {place}.",
            f"Free {gib(needed + SPARE - free)}, or set HF_HOME to a folder on another disk.",
        )


def _complete_here(model_id: str, revision: str) -> Path | None:
    folder = snapshot(model_id, revision)
    try:
        whole = folder is not None and all((folder / name).is_file() for name in weight_files(folder))
    except (ModelError, json.JSONDecodeError):
        return None
    return folder if whole else None
