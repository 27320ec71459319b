"""Names as drivers write them find the right row."""

from __future__ import annotations

import pytest

from llmchat.domain.speed import datasheet


@pytest.mark.parametrize(
    ("name", "gigabytes", "teraflops"),
    [
        ("NVIDIA A100-SXM4-80GB", 2039, 312),
        ("NVIDIA A100 80GB PCIe", 1935, 312),
        ("NVIDIA A100-PCIE-40GB", 1555, 312),
        ("NVIDIA A10G", 600, 70),
        ("NVIDIA RTX A4000", 448, 77),
        ("NVIDIA A40", 696, 150),
        ("NVIDIA H100 PCIe", 2000, 756),
        ("NVIDIA H100 80GB HBM3", 3350, 989),
        ("NVIDIA H20", 4000, 148),
        ("NVIDIA RTX 6000 Ada Generation", 960, 364),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 1792, 504),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", 672, 88),
        ("NVIDIA GeForce RTX 4060 Laptop GPU", 256, 23),
        ("NVIDIA GeForce RTX 3060", 360, 25),
        ("Tesla V100-SXM2-16GB", 900, 125),
        ("Tesla T4", 320, 65),
        ("Orin (nvgpu)", 204, 42),
    ],
)
def test_names_of_the_driver(name: str, gigabytes: float, teraflops: float) -> None:
    found = datasheet.rating(name)
    assert (found.bandwidth, found.compute) == (gigabytes * 1e9, teraflops * 1e12)


def test_no_row_is_hidden_by_a_broader_one_before_it() -> None:
    for row in datasheet.RATINGS:
        assert datasheet.rating(" ".join(row.words)) is row


def test_a_mig_instance_has_its_share() -> None:
    part = datasheet.rating("NVIDIA H100 80GB HBM3 MIG 3g.40gb")
    assert part.bandwidth == 3350e9 / 2
    assert part.compute == pytest.approx(989e12 * 3 / 7)
    assert datasheet.rating("a GPU of tomorrow MIG 1g.5gb") is datasheet.UNKNOWN
