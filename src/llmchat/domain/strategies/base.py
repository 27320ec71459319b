"""What a strategy is, and the case it is asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from llmchat.domain.hardware import HardwareProfile
from llmchat.domain.model import ModelFacts
from llmchat.domain.plan import Precision, Proposal, Request
from llmchat.domain.strategies import blocks, offload, rooms
from llmchat.domain.strategies.reserve import Reserve, reserve


@dataclass(frozen=True)
class Case:
    """One question to every strategy, and what all their answers start from (computed once)."""

    model: ModelFacts
    hardware: HardwareProfile
    request: Request
    precision: Precision
    context: int

    @cached_property
    def blocks(self) -> blocks.Blocks:
        return blocks.split(self.model, self.precision, self.context)

    @cached_property
    def reserve(self) -> Reserve:
        return reserve(self.model, self.context)

    @cached_property
    def gpus(self) -> tuple[rooms.Room, ...]:
        """Those that can run this precision, by index."""
        return rooms.gpus(self.hardware, self.request, self.precision, self.reserve.gpu)

    @cached_property
    def split(self) -> offload.Split | offload.Shortfall:
        """What stays on the GPUs when the rest may be offloaded."""
        return offload.Search(self.blocks, self.gpus).run()

    @cached_property
    def ram(self) -> int:
        """Bytes of RAM for the model; negative where not even the engine itself fits."""
        return rooms.ram(self.hardware, self.request)


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
