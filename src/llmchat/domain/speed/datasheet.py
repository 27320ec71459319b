"""What GPUs are sold to do: used only until this machine has been measured, and said to be assumed then."""

from __future__ import annotations

import re
from typing import NamedTuple

READ_SHARE = 0.85
"""Of the datasheet's bandwidth, what a kernel reads: an H200 was measured at 4,242 of 4,800 GB/s."""
COMPUTE_SHARE = 0.3
"""Of the datasheet's dense 16-bit rate, what the prefill of a 512-token prompt reaches: 8 billion parameters took
0.03 s on an H200 (273 of 989 TFLOP/s)."""


class Rating(NamedTuple):
    words: tuple[str, ...]
    """All of them are words of the driver's name of the GPU."""
    bandwidth: float
    """Bytes/s."""
    compute: float
    """FLOP/s of products in 16 bit, not sparse, summed in 32 bit as torch does it: on a GeForce half of the rate
    with sums in 16 bit."""


def _rated(name: str, gigabytes: float, teraflops: float) -> Rating:
    return Rating(tuple(name.split()), gigabytes * 1e9, teraflops * 1e12)


RATINGS = (
    # Blackwell
    _rated("GB300", 8000, 2500),
    _rated("B300", 8000, 2250),
    _rated("GB200", 8000, 2500),
    _rated("B200", 8000, 2250),
    _rated("RTX PRO 6000", 1792, 504),
    _rated("RTX PRO 5000", 1344, 268),
    _rated("5090 Laptop", 896, 63),
    _rated("5090", 1792, 209),
    _rated("5080", 960, 113),
    _rated("5070 Ti", 896, 88),
    _rated("5070", 672, 62),
    _rated("5060", 448, 38),
    _rated("GB10", 273, 125),
    _rated("Thor", 273, 258),
    # Hopper
    _rated("GH200 144G", 4900, 989),
    _rated("GH200", 4000, 989),
    _rated("H200 NVL", 4800, 835),
    _rated("H200", 4800, 989),
    _rated("H100 NVL", 3900, 835),
    _rated("H100 PCIe", 2000, 756),
    _rated("H100", 3350, 989),
    _rated("H800 PCIe", 2000, 756),
    _rated("H800", 3350, 989),
    _rated("H20", 4000, 148),
    # Ada
    _rated("L40S", 864, 362),
    _rated("L40", 864, 181),
    _rated("L4", 300, 121),
    _rated("RTX 6000 Ada", 960, 364),
    _rated("RTX 5000 Ada", 576, 261),
    _rated("4090 Laptop", 576, 66),
    _rated("4090", 1008, 165),
    _rated("4080 Laptop", 432, 49),
    _rated("4080 SUPER", 736, 104),
    _rated("4080", 717, 97),
    _rated("4070 Laptop", 256, 31),
    _rated("4070 Ti SUPER", 672, 88),
    _rated("4070 Ti", 504, 80),
    _rated("4070", 504, 58),
    _rated("4060 Ti", 288, 44),
    _rated("4060 Laptop", 256, 23),
    _rated("4060", 272, 30),
    # Ampere
    _rated("A100 SXM4 80GB", 2039, 312),
    _rated("A100 80GB", 1935, 312),
    _rated("A100", 1555, 312),
    _rated("A800 SXM4 80GB", 2039, 312),
    _rated("A800", 1935, 312),
    _rated("A40", 696, 150),
    _rated("A30", 933, 165),
    _rated("A10G", 600, 70),
    _rated("A10", 600, 125),
    _rated("RTX A6000", 768, 155),
    _rated("RTX A5000", 768, 111),
    _rated("RTX A4000", 448, 77),
    _rated("3090 Ti", 1008, 80),
    _rated("3090", 936, 71),
    _rated("3080 Ti", 912, 68),
    _rated("3080", 760, 60),
    _rated("3070 Ti", 608, 43),
    _rated("3070", 448, 41),
    _rated("3060 Ti", 448, 32),
    _rated("3060", 360, 25),
    _rated("Orin", 204, 42),
    # Turing, Volta, Pascal
    _rated("T4", 320, 65),
    _rated("Quadro RTX 8000", 672, 130),
    _rated("Quadro RTX 6000", 672, 130),
    _rated("TITAN RTX", 672, 130),
    _rated("2080 Ti", 616, 54),
    _rated("2080", 448, 40),
    _rated("V100S", 1134, 130),
    _rated("V100 SXM2", 900, 125),
    _rated("V100", 900, 112),
    _rated("P100", 732, 19),
)
"""NVIDIA's datasheets and whitepapers; of a Jetson the largest module. The more specific name comes first: the
first match counts."""

UNKNOWN = Rating((), 300e9, 50e12)
"""Any other GPU: about the slowest that is sold for this work (L4, T4)."""

MEMORY_SLICES = {1: 1 / 8, 2: 2 / 8, 3: 4 / 8, 4: 4 / 8, 7: 1.0}
"""Of the memory and its bandwidth, what a MIG instance has, by its sevenths of the computing (NVIDIA's MIG user
guide, profiles of A100 and H100)."""


def rating(name: str) -> Rating:
    """The first rating whose words are all in ``name``, UNKNOWN otherwise; for a MIG instance its share of it."""
    words = set(re.findall(r"\w+", name))
    whole = next((known for known in RATINGS if words.issuperset(known.words)), UNKNOWN)
    instance = re.search(r"\bMIG (?:\d+c\.)?(\d)g\.", name)
    if not instance or whole is UNKNOWN:
        return whole
    sevenths = int(instance[1])
    return whole._replace(
        bandwidth=whole.bandwidth * MEMORY_SLICES.get(sevenths, sevenths / 8),
        compute=whole.compute * sevenths / 7,
    )
