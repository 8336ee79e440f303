"""What benchmarks on a GPU make of their rounds, without a GPU."""

from __future__ import annotations

import random

import pytest

from bench import gpu


def test_a_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    """Medians taken apart would say 1.0: the clock fell between rounds, not between arms."""
    times = {"a": [1.2, 12.0, 120.0], "b": [1.0, 10.0, 100.0]}
    assert gpu.ratio(times, "a", "b") == pytest.approx(1.2)
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        gpu.ratio({"a": [1.0, 2.0], "b": [1.0]}, "a", "b")


def test_the_interval_of_a_median_has_it_in_95_of_100_cases_and_not_in_many_more() -> None:
    """21 values that have nothing normal about them: their median is 1."""
    dice, inside = random.Random(7), 0
    for _ in range(2000):
        found = gpu.median_interval([2 ** dice.gauss(0, 3) for _ in range(21)])
        assert found
        inside += found[0] <= 1 <= found[1]
    assert 0.95 <= inside / 2000 <= 0.99


def test_the_interval_leaves_out_as_many_on_either_side_and_too_few_have_none() -> None:
    assert gpu.median_interval([float(i) for i in range(21, 0, -1)]) == (6.0, 16.0)
    assert gpu.median_interval([1.0] * 5) is None
    assert gpu.median_interval([3.0, 1.0, 2.0, 4.0, 6.0, 5.0]) == (1.0, 6.0)
