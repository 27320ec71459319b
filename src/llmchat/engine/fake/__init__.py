"""An engine without a model: the same protocol, believable times and bytes, scripted replies. Imports no torch.

``LLMCHAT_FAKE_SPEED`` sets the tokens per second (else the plan's), ``LLMCHAT_FAKE_LOAD_SECONDS`` a load's time.
Questions that begin with ``!oom``, ``!die``, ``!hang``, ``!garbage``, ``!long N``, ``!think`` or ``!code`` are
answered accordingly.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import msgspec

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.memory import DISK, Account
from llmchat.engine.channel import Channel
from llmchat.engine.fake import machine as fake_machine
from llmchat.engine.fake import models as fake_models
from llmchat.engine.fake.machine import Holding
from llmchat.engine.fake.reply import Replies
from llmchat.engine.task import Task
from llmchat.errors import InternalError, LlmchatError, UsageError
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
    Loaded,
    Ready,
)

HEARTBEAT = 0.5
"""Seconds, as the real engine's."""
TICK = 0.02
"""Seconds between two looks at whether a command was stopped."""


def main(channel: Channel, hardware: Path) -> None:
    """Be the engine of the machine in the file ``hardware`` until the parent is gone."""
    profile = msgspec.json.decode(hardware.read_bytes(), type=HardwareProfile)
    FakeEngine(channel, profile).run()


def wait(task: Task, seconds: float) -> None:
    """Raises Cancelled as soon as the command is stopped."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        task.check()
        time.sleep(min(left, TICK))
    task.check()


class FakeEngine:
    def __init__(self, channel: Channel, profile: HardwareProfile) -> None:
        self._channel, self._profile = channel, profile
        self._holding = Holding()
        self._replies: Replies | None = None
        self._hanging = threading.Event()

    def run(self) -> None:
        software = msgspec.structs.asdict(self._profile.software)
        versions = dict(software.pop("packages"))
        versions |= {name.replace("torch_cuda", "cuda"): text for name, text in software.items() if text}
        self._channel.send(Ready(versions=versions, gpus=self._profile.gpus))
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        for command in self._channel.commands():
            task = self._channel.task(command)
            try:
                task.check()
                self._channel.send(self._answer(command, task))
            except LlmchatError as error:
                self._fail(command, error)
            except Exception as error:
                detail = traceback.format_exc()
                self._fail(command, InternalError("The fake engine failed", f"{error!r}", detail=detail))

    def _answer(self, command: AnyCommand, task: Task) -> AnyEvent:
        match command:
            case Inspect():
                wait(task, 0.05)
                facts = fake_models.facts(command.model_id, Path(command.path), command.revision)
                return Inspected(id=command.id, facts=facts)
            case Convert():
                self._steps(task, "Converting", 270_000_000, fake_machine.seconds("LOAD_SECONDS", 1.0))
                return Converted(id=command.id, target=command.target)
            case Calibrate():
                return self._calibrate(command, task)
            case Load():
                return self._load(command, task)
            case Generate():
                if self._replies is None:
                    raise UsageError("No model is loaded", "There is no model to answer.", "Load one first (F4).")
                return Finished(id=command.id, stats=self._replies.run(command, task))
        raise InternalError("Unknown command", f"The engine cannot do {type(command).__name__}.")

    def _calibrate(self, command: Calibrate, task: Task) -> Calibrated:
        task.progress("Measuring the memory")
        wait(task, 0.1)
        measured = fake_machine.calibrated(self._profile)
        return Calibrated(
            id=command.id,
            gpus=measured.gpus,
            ram_bandwidth=measured.ram_bandwidth,
            disk_bandwidth=measured.disk_bandwidth,
            layer_overhead=measured.layer_overhead,
            cpu_layer_overhead=measured.cpu_layer_overhead,
            time=time.time(),
        )

    def _load(self, command: Load, task: Task) -> Loaded:
        """Memory fills to the plan's bytes; stopped, it is given back."""
        plan, started = command.plan, time.monotonic()
        self._replies = None
        self._holding.plan(plan, command.facts)
        total = sum(account.weights for account in plan.devices.values())
        try:
            self._steps(task, "Reading weights", total, fake_machine.load_seconds(total), self._holding.fill)
            task.progress("Proving it with one token")
            wait(task, 0.02)
        except LlmchatError:
            self._holding.drop()
            raise
        self._replies = Replies(plan, self._holding, self._channel.send, wait, self._trick)
        devices = {
            name: Account(weights=account.weights, compute=account.compute)
            for name, account in plan.devices.items()
            if name != DISK
        }
        return Loaded(id=command.id, devices=devices, seconds=time.monotonic() - started)

    def _steps(
        self, task: Task, stage: str, total: int, seconds: float, tell: fake_machine.Tell = lambda share: None
    ) -> None:
        """Progress from 0 to ``total`` bytes within ``seconds``."""
        started = time.monotonic()
        share = 0.0
        while share < 1:
            share = min(1.0, (time.monotonic() - started) / seconds) if seconds else 1.0
            tell(share)
            task.progress(stage, int(total * share), total, "bytes")
            wait(task, min(TICK, seconds))

    def _trick(self, trick: str) -> None:
        """What a question beginning with ``!`` asked for, once some text has come."""
        if trick == "die":
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        if trick == "hang":
            self._hanging.set()
            threading.Event().wait()
        if trick == "garbage":
            self._channel._writer.write(b"this is not an event\n")

    def _fail(self, command: AnyCommand, error: LlmchatError) -> None:
        stats = getattr(error, "stats", None)
        self._channel.send(Failed(id=command.id, problem=error.problem, stats=stats))

    def _beat(self) -> None:
        pause = threading.Event()
        while not self._hanging.is_set():
            self._channel.send(Heartbeat(held=self._holding.held()))
            pause.wait(HEARTBEAT)
