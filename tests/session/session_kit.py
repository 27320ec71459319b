"""A session over the scripted engine, on a machine made up for the tests."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable
from pathlib import Path

import psutil
from msgspec.structs import replace

from llmchat.domain.hardware import HardwareProfile, Software
from llmchat.domain.plan import Plan
from llmchat.session.controller import Session
from llmchat.session.options import SessionOptions
from llmchat.session.state import Phase, SessionState

GIB = 2**30
MACHINE = HardwareProfile(
    name="test machine",
    ram_total=16 * GIB,
    ram_available=12 * GIB,
    disk_free=100 * GIB,
    cpu="test",
    cores=4,
    ram_bandwidth=2e10,
    disk_bandwidth=1e9,
    layer_overhead=1e-3,
    software=Software(torch="2.13.0", transformers="5.24.0", accelerate="1.15.0", bitsandbytes="0.50.2"),
)
BUSY = (Phase.PREPARING, Phase.LOADING, Phase.SWITCHING, Phase.GENERATING)


def model_folder(parent: Path, name: str = "tiny") -> Path:
    """A folder that looks like a model: the scripted engine says what is in it."""
    folder = parent / name
    folder.mkdir()
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "name": name}
    (folder / "config.json").write_text(json.dumps(config))
    header = json.dumps({"weight": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    return folder


class Kit:
    """One session, and what happened to it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = model_folder(home)
        self.session = Session(SessionOptions(hardware=MACHINE))
        self.phases: list[Phase] = []
        self.pids: set[int] = set()
        self.watch()

    def watch(self) -> None:
        self.session.subscribe(self._look)

    def _look(self, state: SessionState) -> None:
        if not self.phases or self.phases[-1] is not state.phase:
            self.phases.append(state.phase)
        if state.memory and state.memory.engine_pid:
            self.pids.add(state.memory.engine_pid)
        if self.session._engine.pid:
            self.pids.add(self.session._engine.pid)

    @property
    def state(self) -> SessionState:
        return self.session.state

    def behave(self, **load: str) -> None:
        """Keyword: a plan's label with ``_`` for `` · ``; value: what its load does."""
        acts = {label.replace("_", " · "): act for label, act in load.items()}
        (self.home / "behaviour.json").write_text(json.dumps({"load": acts}))

    async def until(self, condition: Callable[[SessionState], object], seconds: float = 20.0) -> SessionState:
        async with asyncio.timeout(seconds):
            return await self.session._store.wait(lambda state: bool(condition(state)))

    async def settled(self) -> SessionState:
        """Nothing is going on any more."""
        return await self.until(lambda s: s.phase not in BUSY and not self.session._replier.active)

    async def ready(self) -> SessionState:
        await self.session.start()
        self.session.open(str(self.folder))
        return await self.until(lambda s: s.phase is Phase.READY)

    async def say(self, text: str) -> SessionState:
        """Send, and wait for the end of the reply."""
        self.session.send(text)
        await self.session._replier.ended()
        return self.state

    def plan(self, label: str) -> Plan:
        assert self.state.ranking is not None
        return next(plan for plan in self.state.ranking.plans if plan.label == label)

    def answers(self) -> list[str]:
        assert self.state.chat is not None
        return [turn.content for turn in self.state.chat.turns if turn.role == "assistant"]

    def leftovers(self) -> list[int]:
        return [pid for pid in self.pids if psutil.pid_exists(pid)]


def too_small() -> HardwareProfile:
    return replace(MACHINE, ram_available=1, disk_free=1)
