"""Cold caches that are not, and rates that no memory has."""

from __future__ import annotations

import math

import pytest

from attribution.errors import MeasureError
from attribution.measure import cold


def test_cold_must_be_cold() -> None:
    """L2 of 50 MB, copies of 4 MB, 13 of them, 5 visited: 20 MB."""
    with pytest.raises(MeasureError, match=r"5 of 13 copies.*20 MB.*holds 50 MB"):
        cold.check_cold(4_000_000, 13, 5, 50_000_000)
    # All visited, but too few of them: 12 others between two uses are 48 MB.
    with pytest.raises(MeasureError, match="48 MB"):
        cold.check_cold(4_000_000, 13, 100, 50_000_000)
    # Each used once, more than the L2 holds; and one copy that is used again and again evicts nothing, however large.
    assert cold.check_cold(4_000_000, 13, 13, 50_000_000) == 52_000_000
    with pytest.raises(MeasureError, match="0 MB between two uses"):
        cold.check_cold(60_000_000, 1, 5, 50_000_000)
    with pytest.raises(MeasureError, match="50 MB between two uses"):
        cold.check_cold(5_000_000, 10, 10, 50_000_000)
    need = cold.copies_for(4_000_000, 50_000_000)
    assert need == 1 + 19  # others of at least 75 MB
    assert cold.check_cold(4_000_000, need, need + 1, 50_000_000) > 50_000_000
    assert cold.copies_for(2**31, 60 * 2**20) == 2
    assert cold.copies_for(1, 1) == 3


@pytest.mark.parametrize(("copy_bytes", "l2_bytes"), [(0, 1), (1, 0)])
def test_a_protocol_without_sizes_is_refused(copy_bytes: int, l2_bytes: int) -> None:
    with pytest.raises(MeasureError, match=f"one copy has {copy_bytes} bytes, the L2 {l2_bytes}"):
        cold.copies_for(copy_bytes, l2_bytes)


@pytest.mark.parametrize(
    ("read_bytes", "sectors", "hits", "passed"),
    [
        (16784640.0, 801403.0, 538634.0, True),
        (14e6, 801403.0, 538634.0, False),
        (768.0, 537645.0, 539226.0, False),
        (16784640.0, 537645.0, 539226.0, False),
        (16784640.0, 537645.0, 537635.0, False),
        (math.nan, 801403.0, 538634.0, False),
        (16784640.0, math.nan, math.nan, False),
    ],
    ids=["cold", "half of it", "warm", "the L2 of a later pass", "ten of them", "memory not counted", "L2 not counted"],
)
def test_the_counters_must_agree_that_a_launch_was_cold(
    read_bytes: float, sectors: float, hits: float, passed: bool
) -> None:
    """What an H200 counted of hello on a matrix of 16.8 MB, cold and warm."""
    found, seen = cold.check_missed(read_bytes, sectors, hits, 64 * 65536 * 4)
    assert found == passed
    assert "MB came from memory, 16.8 MB must" in seen


def test_nine_tenths_are_enough_and_a_line_has_128_bytes() -> None:
    assert cold.check_missed(1152.0, 10.0, 1.0, 1280.0)[0]
    assert not cold.check_missed(1151.0, 10.0, 1.0, 1280.0)[0]
    assert not cold.check_missed(1280.0, 10.0, 1.0, 1290.0)[0]
    assert cold.check_missed(16784640.0, 801403.0, 538634.0, 20e6)[1] == (
        "16.8 MB came from memory, 20 MB must; 67.2% of 801403 sectors hit the L2"
    )


def test_faster_than_the_memory_is_refused() -> None:
    """3530 GB/s on a chip of 864."""
    with pytest.raises(MeasureError, match="faster than the memory: 3530 GB/s where it can do 864"):
        cold.check_rate(3_530_000, 1000.0, 864e9)
    assert cold.check_rate(800_000, 1000.0, 864e9) == pytest.approx(800e9)
    assert cold.check_rate(3_530_000, 1000.0, math.nan) == pytest.approx(3530e9)
    assert cold.check_rate(864, 1.0, 864e9) == 864e9
    with pytest.raises(MeasureError, match="is no time"):
        cold.check_rate(1, 0.0, 864e9)
