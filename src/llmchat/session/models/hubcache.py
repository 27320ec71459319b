"""The hub cache on this disk: ``models--owner--name`` with ``refs/<revision>`` and ``snapshots/<commit>``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec

__all__ = ["Cached", "cached_models", "hub_cache", "keep_ref", "repository", "snapshot"]

PREFIX = "models--"
DEFAULT = "main"
GENERATORS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
"""Ends of the class names of models that write text."""


class Cached(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    revision: str
    """Empty for the default branch."""
    folder: Path


def hub_cache() -> Path:
    """Where the hub client keeps models: HF_HUB_CACHE, HF_HOME and XDG_CACHE_HOME respected."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def repository(model_id: str) -> Path:
    """The folder of this model in the hub cache."""
    return hub_cache() / (PREFIX + model_id.replace("/", "--"))


def snapshot(model_id: str, revision: str) -> Path | None:
    """The folder of this revision (a branch, tag or commit); None where it is not here."""
    root = repository(model_id)
    ref = revision or DEFAULT
    if ".." in Path(ref).parts:
        return None
    with contextlib.suppress(OSError):
        ref = (root / "refs" / ref).read_text().strip()
    folder = root / "snapshots" / ref
    return folder if ref and folder.is_dir() else None


def keep_ref(model_id: str, revision: str, commit: str) -> None:
    """Remember which commit a branch or tag stands for, so that it is found without the hub."""
    ref = repository(model_id) / "refs" / (revision or DEFAULT)
    if commit and revision != commit and ".." not in ref.parts:
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_text(commit)


def cached_models() -> Iterator[Cached]:
    """Language models with a config: one entry each, of the default branch where that is here."""
    for root in sorted(hub_cache().glob(PREFIX + "*")):
        with contextlib.suppress(OSError):
            model_id = root.name.removeprefix(PREFIX).replace("--", "/")
            found = _best(root)
            if found and _writes_text(found[1]):
                yield Cached(id=model_id, revision=found[0], folder=found[1])


def _best(root: Path) -> tuple[str, Path] | None:
    """Revision and snapshot: the default branch, else another ref, else the newest commit."""
    refs = {}
    for file in sorted((root / "refs").rglob("*")):
        if file.is_file():
            refs[file.relative_to(root / "refs").as_posix()] = file.read_text().strip()
    for name in sorted(refs, key=lambda name: (name != DEFAULT, name)):
        folder = root / "snapshots" / refs[name]
        if refs[name] and (folder / "config.json").is_file():
            return ("" if name == DEFAULT else name), folder
    commits = [folder for folder in (root / "snapshots").glob("*") if (folder / "config.json").is_file()]
    newest = max(commits, key=lambda folder: folder.stat().st_mtime, default=None)
    return (newest.name, newest) if newest else None


def _writes_text(folder: Path) -> bool:
    """By the config alone; encoder-decoder models (translation, speech) are not for chatting."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
        names = config.get("architectures") or ()
        return not config.get("is_encoder_decoder") and any(str(name).endswith(GENERATORS) for name in names)
    except (ValueError, AttributeError, TypeError):
        return False
