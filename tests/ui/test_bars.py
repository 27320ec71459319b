from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llmchat.domain.memory import Account
from llmchat.ui.bars import FILL, KINDS, LEVELS, segments, share, spark, thin

amounts = st.lists(st.integers(0, 2**40), min_size=1, max_size=8)


@given(amounts, st.integers(0, 200))
def test_the_shares_fill_the_bar(values: list[int], cells: int) -> None:
    shares = share(values, cells)
    assert sum(shares) == (cells if sum(values) else 0)
    assert min(shares) >= 0


@given(amounts, st.integers(8, 200))
def test_every_amount_is_visible_and_no_zero_is(values: list[int], cells: int) -> None:
    for value, cell in zip(values, share(values, cells), strict=True):
        assert (cell > 0) == (value > 0)


@given(st.lists(st.integers(1, 2**40), min_size=2, max_size=6), st.integers(60, 200))
def test_large_shares_are_within_the_kinds_given_a_cell(values: list[int], cells: int) -> None:
    total = sum(values)
    for value, cell in zip(values, share(values, cells), strict=True):
        assert abs(cell - value * cells / total) <= len(values)


def test_largest_remainder_takes_the_spare_cells() -> None:
    assert share([50, 30, 20], 7) == [4, 2, 1]
    assert share([1, 1, 1], 10) == [4, 3, 3]


def test_a_bar_too_short_for_all_shows_the_largest() -> None:
    assert share([100, 1, 1, 1], 2) == [1, 1, 0, 0]


def test_segments_stack_in_the_order_of_the_kinds() -> None:
    account = Account(weights=60, kv_cache=10, compute=5, other=5, free=20)
    assert segments(account, 20) == [("weights", 12), ("kv_cache", 2), ("compute", 1), ("other", 1), ("free", 4)]


def test_every_kind_has_a_character_of_its_own() -> None:
    assert len({FILL[kind] for kind in KINDS}) == len(KINDS)


def test_spark_ends_at_the_right_and_keeps_to_its_levels() -> None:
    assert spark([0.0, 0.5, 1.0, 7.0], 6) == "  " + LEVELS[0] + LEVELS[4] + LEVELS[7] * 2
    assert spark([0.1] * 50, 3) == LEVELS[0] * 3


def test_thinning_keeps_the_peak() -> None:
    values = [0.1] * 100
    values[57] = 0.9
    assert len(thin(values, 10)) == 10
    assert max(thin(values, 10)) == 0.9
