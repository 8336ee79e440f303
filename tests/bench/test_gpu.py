"""What benchmarks on a GPU make of their rounds, without a GPU."""

from __future__ import annotations

import pytest

from bench import gpu


def test_a_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    """Medians taken apart would say 1.0: the clock fell between rounds, not between arms."""
    times = {"a": [1.2, 12.0, 120.0], "b": [1.0, 10.0, 100.0]}
    assert gpu.ratio(times, "a", "b") == pytest.approx(1.2)
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        gpu.ratio({"a": [1.0, 2.0], "b": [1.0]}, "a", "b")
