"""The engine at work: one command at a time on the main thread, a heartbeat beside it."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from llmchat.engine import setup
from llmchat.engine.channel import Channel
from llmchat.engine.hardware.gpus import Found, Look
from llmchat.engine.task import Task
from llmchat.errors import InternalError, UsageError
from llmchat.protocol import (
    AnyCommand,
    AnyEvent,
    Calibrate,
    Calibrated,
    Convert,
    Converted,
    Failed,
    Finished,
    Generate,
    Heartbeat,
    Inspect,
    Inspected,
    Load,
    Ready,
)

if TYPE_CHECKING:
    from llmchat.engine.loaded import LoadedModel
    from llmchat.engine.reply.generate import Generator

HEARTBEAT = 0.5
"""Seconds between two heartbeats."""
PACKAGES = ("torch", "transformers", "accelerate", "bitsandbytes", "rmm-cu12", "rmm-cu13")


def serve(channel: Channel) -> None:
    """Import what is heavy, say Ready, then work until the parent is gone."""
    look = Look()
    import transformers  # noqa: F401

    import llmchat.engine.load  # noqa: F401

    torch.set_num_threads(cores())
    setup.prepare()
    found = look.result()
    channel.send(Ready(versions=versions(), gpus=found.gpus, warnings=found.warnings))
    Service(channel, found).run()


def versions() -> dict[str, str]:
    """Of the packages that matter here; ``rmm`` under one name, CUDA as torch was built for it."""
    found = {}
    for package in PACKAGES:
        try:
            found[package.partition("-")[0]] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    return found


def cores() -> int:
    """Cores this process may use: its affinity, and the cgroup's quota where there is one."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return count
    return count if quota == "max" else max(1, min(count, int(quota) // int(period)))


class Service:
    def __init__(self, channel: Channel, found: Found) -> None:
        self._channel, self._found = channel, found
        self._loaded: LoadedModel | None = None
        self._generator: Generator | None = None
        self._sizes: Mapping[str, int] = {}
        self._in_files = 0
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def run(self) -> None:
        for command in self._channel.commands():
            task = self._channel.task(command)
            try:
                task.check()
                self._channel.send(self._answer(command, task))
            except Exception as error:
                self._fail(command, error)

    def _answer(self, command: AnyCommand, task: Task) -> AnyEvent:
        """Do what is asked; returns the event that ends it."""
        match command:
            case Inspect():
                from llmchat.engine.model.inspect import inspect

                facts = inspect(Path(command.path), command.model_id, command.revision)
                return Inspected(id=command.id, facts=facts)
            case Convert():
                from llmchat.engine.convert import convert

                convert(Path(command.source), Path(command.target), task)
                return Converted(id=command.id, target=command.target)
            case Calibrate():
                return self._calibrate(command, task)
            case Load():
                return self._load(command, task)
            case Generate():
                if self._generator is None:
                    raise UsageError("No model is loaded", "There is no model to answer.", "Load one first (F4).")
                stats = self._generator.run(command, task, self._channel.send)
                return Finished(id=command.id, stats=stats)
        raise InternalError("Unknown command", f"The engine cannot do {type(command).__name__}.")

    def _calibrate(self, command: Calibrate, task: Task) -> Calibrated:
        from llmchat.engine.hardware.calibrate import calibrate

        return calibrate(command, task, self._found.gpus)

    def _load(self, command: Load, task: Task) -> AnyEvent:
        from llmchat.engine import load
        from llmchat.engine.hardware import memory
        from llmchat.engine.reply import generate

        self._drop()
        loaded, event = load.load(command, task, self._found.contexts)
        self._sizes, self._in_files = memory.weights(loaded.model), memory.mapped(loaded.model)
        self._loaded, self._generator = loaded, generate.Generator(loaded)
        return event

    def _drop(self) -> None:
        """Give the loaded model up, or what is left of one whose load failed."""
        from llmchat.engine.hardware import memory

        self._generator, self._sizes, self._in_files = None, {}, 0
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None
        gc.collect()
        if memory.cuda_in_use():
            torch.cuda.empty_cache()

    def _fail(self, command: AnyCommand, error: Exception) -> None:
        from llmchat.engine.problems import readable

        shown = readable(error)
        if shown.detail or isinstance(shown, InternalError):
            traceback.print_exception(error)
        stats = getattr(error, "stats", None)
        if isinstance(command, Load):
            _let_go(error)
            self._drop()
        self._channel.send(Failed(id=command.id, problem=shown.problem, stats=stats))

    def _beat(self) -> None:
        from llmchat.engine.hardware import memory

        pause = threading.Event()
        while not pause.wait(HEARTBEAT):
            generator = self._generator
            try:
                kv = generator.kv_bytes() if generator else {}
                held = memory.held(self._sizes, kv, self._in_files, self._found.contexts)
                self._channel.send(Heartbeat(held=held))
            except RuntimeError as error:  # a cache that grows while it is counted, a GPU that is lost
                print(f"llmchat engine: no heartbeat: {error}", file=sys.stderr)  # noqa: T201


def _let_go(error: BaseException) -> None:
    """Clear the frames of a failed load: they hold half a model."""
    link: BaseException | None = error
    while link is not None:
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
