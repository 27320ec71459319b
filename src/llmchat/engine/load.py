"""Load: hold a model as planned, prove it with one token, and say what that took."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from transformers import AutoTokenizer

from llmchat.domain.measured import gaps
from llmchat.domain.memory import CPU, DISK, Account, gib
from llmchat.domain.plan import Plan, Precision
from llmchat.domain.words import at
from llmchat.engine import placement
from llmchat.engine.hardware import memory
from llmchat.engine.loaded import LoadedModel
from llmchat.engine.model import architecture, checkpoint
from llmchat.engine.reply import generate
from llmchat.engine.runners import RUNNERS, Job
from llmchat.engine.runners.common import device, offloads
from llmchat.engine.task import Task
from llmchat.errors import ModelError
from llmchat.protocol import Load, Loaded

MANAGED = "managed memory"


def load(command: Load, task: Task, contexts: Mapping[int, int]) -> tuple[LoadedModel, Loaded]:
    """Raises ModelError, OutOfMemory, Cancelled. ``contexts``: bytes of the CUDA context by GPU."""
    started = time.monotonic()
    folder = Path(command.path)
    task.progress("Checking the checkpoint")
    checkpoint.check(folder)
    config = architecture.read_config(folder)
    sizes = placement.check(config, command.plan, command.facts)
    task.check()
    job = Job(folder, command.plan, task, sizes, architecture.auto_class(config))
    running = RUNNERS[command.plan.runner](job)
    try:
        loaded = _complete(running.model, folder, command)
        loaded.closers = running.closers
        task.progress("Proving it with one token")
        task.check()
        generate.prove(loaded, task)
    except BaseException:
        for close in running.closers:
            close()
        raise
    gc.collect()
    devices = memory.accounts(loaded.model, {}, contexts)
    loaded.notes += notes(loaded.plan, devices)
    loaded.notes += _expanded(loaded)
    seconds = time.monotonic() - started
    return loaded, Loaded(id=command.id, devices=devices, seconds=seconds, notes=tuple(loaded.notes))


def _complete(model: Any, folder: Path, command: Load) -> LoadedModel:
    """With tokenizer, input device and stop ids."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise ModelError(
            "Tokenizer cannot be loaded",
            f"The tokenizer files in {folder} do not work: {error}",
            "Download the model completely: tokenizer.json and tokenizer_config.json are needed.",
        ) from error
    plan = command.plan
    embedding = next((m.name for m in command.facts.modules if m.kind == "embedding"), "")
    home = placement.device_of(embedding, plan.placement) or plan.main_device
    away = home == DISK or (home == CPU and offloads(plan))
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        plan=plan,
        facts=command.facts,
        input_device=device(plan.main_device if away else home),
        eos_ids=stop_ids(model, tokenizer),
    )


def stop_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """The generation config's, the config's and the tokenizer's end tokens, and the template's end of turn."""
    found: set[int] = set()
    for source in (model.generation_config, architecture.text_config(model.config), tokenizer):
        value = getattr(source, "eos_token_id", None)
        found |= {value} if isinstance(value, int) else set(value or ())
    template = tokenizer.chat_template if isinstance(tokenizer.chat_template, str) else ""
    for text in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|eot|>", "<turn|>"):
        token = tokenizer.convert_tokens_to_ids(text) if text in template else None
        if token is not None and token != tokenizer.unk_token_id:
            found.add(token)
    return frozenset(found)


def notes(plan: Plan, measured: Mapping[str, Account]) -> list[str]:
    """What takes more or less memory than planned, a sentence for each device; the log gets them, too."""
    if plan.runner == "managed":  # where its pages lie is the driver's affair
        plan = msgspec.structs.replace(plan, devices={MANAGED: _sum(plan.devices)})
        measured = {MANAGED: _sum(measured)}
    found = []
    for name in sorted(gaps(plan, dict(measured))):
        got, want = (_held(devices.get(name, Account())) for devices in (measured, plan.devices))
        where = f"in {MANAGED}" if name == MANAGED else at(name)
        found.append(f"{gib(got, 2)} of weights and workspace are {where}; {gib(want, 2)} were planned")
    for note in found:
        print(f"llmchat engine: {note}", file=sys.stderr)  # noqa: T201
    return found


def _held(account: Account) -> int:
    return account.weights + account.compute


def _sum(devices: Mapping[str, Account]) -> Account:
    """Of all devices but the disk."""
    accounts = [account for name, account in devices.items() if name != DISK]
    return Account(weights=sum(a.weights for a in accounts), compute=sum(a.compute for a in accounts))


def _expanded(loaded: LoadedModel) -> list[str]:
    """A sentence where a quantized checkpoint was loaded as 16 bit."""
    method = getattr(loaded.model, "quantization_method", None)
    if loaded.facts.prequantized and loaded.plan.precision is Precision.PUBLISHED and method is None:
        return [f"the checkpoint's {loaded.facts.prequantized} weights were expanded to {loaded.plan.dtype}"]
    return []
