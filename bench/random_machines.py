"""Machines by chance: one to eight GPUs of real sizes, alike or not, some of them partly used by others."""

from __future__ import annotations

import random
from collections.abc import Iterator

from llmchat.domain.hardware import Gpu, HardwareProfile, Software
from llmchat.domain.memory import GIB

CARDS = (
    ("NVIDIA GeForce RTX 2060", 6),
    ("NVIDIA GeForce RTX 3070", 8),
    ("NVIDIA GeForce RTX 3080", 10),
    ("NVIDIA GeForce RTX 3060", 12),
    ("Tesla V100-SXM2-16GB", 16),
    ("NVIDIA RTX A4500", 20),
    ("NVIDIA GeForce RTX 3090", 24),
    ("NVIDIA GeForce RTX 5090", 32),
    ("NVIDIA A100-SXM4-40GB", 40),
    ("NVIDIA L40S", 48),
    ("NVIDIA A100-SXM4-80GB", 80),
    ("NVIDIA H100 NVL", 94),
    ("NVIDIA H200", 141),
)
"""Name and GiB: the name tells the planner how fast the card is."""
RAM = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""GiB."""
SHARED = 0.3
"""Of the GPUs, how many others use."""


def machines(count: int, seed: int) -> Iterator[HardwareProfile]:
    """The same ``seed`` gives the same machines; half of them have GPUs of one kind."""
    chance = random.Random(seed)
    for number in range(count):
        yield _machine(chance, f"machine {number}")


def _machine(chance: random.Random, name: str) -> HardwareProfile:
    many = chance.randint(1, 8)
    cards = [chance.choice(CARDS)] * many if chance.random() < 0.5 else chance.choices(CARDS, k=many)
    ram = chance.choice(RAM) * GIB
    return HardwareProfile(
        name=name,
        gpus=tuple(
            Gpu(index=index, name=card, total=size * GIB, free=_free(chance, size * GIB))
            for index, (card, size) in enumerate(cards)
        ),
        ram_total=ram,
        ram_available=int(ram * chance.uniform(0.5, 0.95)),
        disk_free=4096 * GIB,
        cores=32,
        software=Software(torch="2.13.0", torch_cuda="13.0"),
    )


def _free(chance: random.Random, size: int) -> int:
    """Bytes: all, or what others leave, 20 to 95 %."""
    return int(size * chance.uniform(0.2, 0.95)) if chance.random() < SHARED else size
