"""What GPUs are sold to do: used only until this machine has been measured, and said to be assumed then."""

from __future__ import annotations

from typing import NamedTuple

READ_SHARE = 0.85
"""Of the datasheet's bandwidth, what a kernel reads: an H200 was measured at 4,242 of 4,800 GB/s."""
COMPUTE_SHARE = 0.3
"""Of the datasheet's dense 16-bit rate, what the prefill of a 512-token prompt reaches: 8 billion parameters took
0.03 s on an H200 (273 of 989 TFLOP/s)."""


class Rating(NamedTuple):
    words: tuple[str, ...]
    """All of them are in the driver's name of the GPU."""
    bandwidth: float
    """Bytes/s."""
    compute: float
    """Dense 16-bit FLOP/s."""


RATINGS = (
    Rating(("GB200",), 8.0e12, 2250e12),
    Rating(("B200",), 8.0e12, 2250e12),
    Rating(("GH200",), 4.0e12, 989e12),
    Rating(("H200",), 4.8e12, 989e12),
    Rating(("H100", "PCIe"), 2.0e12, 756e12),
    Rating(("H100",), 3.35e12, 989e12),
    Rating(("A100", "80GB"), 1.94e12, 312e12),
    Rating(("A100",), 1.56e12, 312e12),
    Rating(("L40S",), 864e9, 362e12),
    Rating(("L40",), 864e9, 181e12),
    Rating(("L4",), 300e9, 121e12),
    Rating(("A40",), 696e9, 150e12),
    Rating(("A10",), 600e9, 125e12),
    Rating(("A6000",), 768e9, 155e12),
    Rating(("5090",), 1792e9, 209e12),
    Rating(("4090",), 1008e9, 165e12),
    Rating(("4060",), 272e9, 60e12),
    Rating(("3090",), 936e9, 71e12),
    Rating(("3080",), 760e9, 60e12),
    Rating(("3060",), 360e9, 51e12),
    Rating(("V100",), 900e9, 112e12),
    Rating(("T4",), 320e9, 65e12),
    Rating(("GB10",), 273e9, 62e12),
)
"""NVIDIA's datasheets and whitepapers. The more specific name comes first: the first match counts."""

UNKNOWN = Rating((), 300e9, 50e12)
"""Any other GPU: about the slowest that is sold for this work (L4, T4)."""


def rating(name: str) -> Rating:
    """The first rating whose words are all in ``name``; UNKNOWN otherwise."""
    return next((known for known in RATINGS if all(word in name for word in known.words)), UNKNOWN)
