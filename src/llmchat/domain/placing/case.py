"""What a strategy is, and the case it is asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.measured import NOTHING, Lesson
from llmchat.domain.model import ModelFacts
from llmchat.domain.placing import blocks, kv_policy, offload, rooms
from llmchat.domain.placing.fill import Space
from llmchat.domain.placing.reserve import transient
from llmchat.domain.plan import Kv, Precision, Proposal, Request


@dataclass(frozen=True)
class Case:
    """One question to every strategy, and what all their answers start from (computed once)."""

    model: ModelFacts
    hardware: HardwareProfile
    request: Request
    precision: Precision
    context: int
    kv: Kv = "device"
    lesson: Lesson = NOTHING
    """What earlier runs of this very way to hold the model say."""
    remarks: tuple[str, ...] = ()
    """About the model on this machine, for every plan's reasons."""
    problem: str = ""
    """Why the checkpoint cannot be loaded here at all, in one sentence; empty when it can."""
    remedy: str = ""
    gpu_only: bool = False
    """The checkpoint's format does not allow parts of it in RAM or on disk."""

    @cached_property
    def blocks(self) -> blocks.Blocks:
        return blocks.split(self.model, self.precision, self.context, self.kv)

    @cached_property
    def kv_in_ram(self) -> int:
        """Bytes of KV cache that lie in RAM by the policy alone."""
        return kv_policy.in_ram((module.cache for module in self.model.modules), self.context, self.kv)

    @cached_property
    def transient(self) -> int:
        """Bytes that the CPU needs for a moment when it runs the model."""
        return max(transient(self.model, self.context, self.precision))

    @cached_property
    def beside(self) -> Space:
        """Bytes that each GPU needs beside weights, KV cache and the CUDA context."""
        staging = kv_policy.staging((module.cache for module in self.model.modules), self.context, self.kv)
        extra = Space(self.lesson.gpu, staging + self.lesson.gpu)
        return transient(self.model, self.context, self.precision).plus(extra)

    @cached_property
    def gpus(self) -> tuple[rooms.Room, ...]:
        """Those that can run this precision, by index."""
        return rooms.gpus(self.hardware, self.request, self.precision, self.beside)

    @cached_property
    def split(self) -> offload.Split | offload.Shortfall:
        """What stays on the GPUs when the rest may be offloaded."""
        return offload.Search(self.blocks, self.gpus).run()

    @cached_property
    def ram(self) -> int:
        """Bytes of RAM for the model; negative where not even the engine itself fits."""
        return rooms.ram(self.hardware, self.request) - self.kv_in_ram - self.lesson.ram


@dataclass(frozen=True)
class Strategy:
    name: str
    """As the person writes it: ``single-gpu``."""
    summary: str
    """Where the weights are, in a few words."""
    answer: Callable[[Case], Proposal]
    """Pure: the same case gives the same proposal."""

    def propose(
        self, model: ModelFacts, hardware: HardwareProfile, request: Request, precision: Precision, context: int
    ) -> Proposal:
        return self.answer(Case(model, hardware, request, precision, context))
