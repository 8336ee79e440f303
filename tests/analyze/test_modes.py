"""Two populations are found and reported as both; one population is left alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from planted import noise

from attribution.analyze.modes import combinations, lost_effect, modes_of, told, two_modes

PLAIN = [9927.0] * 12 + [10358.0] * 28
TRACED = [10334.0] * 40


def test_two_populations_hide_in_one_median() -> None:
    found = two_modes(PLAIN)
    assert found is not None
    assert found.values == (9927.0, 10358.0)
    assert found.counts == (12, 28)
    assert str(found) == "two modes: 9927 x 12 and 10358 x 28"


def test_the_traced_build_has_lost_the_effect() -> None:
    text = lost_effect(PLAIN, TRACED)
    assert "two modes: 9927 x 12 and 10358 x 28" in text
    assert "single mode at 10334" in text
    assert "lost the effect" in text
    assert lost_effect(PLAIN, PLAIN) == ""
    assert lost_effect(TRACED, TRACED) == ""


@pytest.mark.parametrize("count", [8, 12, 20, 40, 200])
def test_one_population_is_rarely_split(count: int) -> None:
    rng = np.random.default_rng(count)
    for phi in (0.0, 0.5):
        series = noise(rng, (400, count), phi)
        assert np.mean([two_modes(s) is not None for s in series]) <= 0.02


@pytest.mark.parametrize("count", [20, 40, 200])
def test_separated_populations_are_found(count: int) -> None:
    rng = np.random.default_rng(count)
    series = rng.normal(size=(200, count))
    series[:, : count // 4] += 10
    assert np.mean([two_modes(s) is not None for s in series]) >= 0.95


def covered(seed: int) -> list[bool]:
    """Two modes, 12 and 28 samples: are they found, and do the intervals hold both planted medians?"""
    rng = np.random.default_rng(seed)
    found = two_modes(rng.permutation(np.r_[rng.normal(9927, 20, 12), rng.normal(10358, 20, 28)]))
    if found is None:
        return [False] * 3
    (first, last), (begin, end) = found.ranges
    return [found.counts == (12, 28), first <= 9927 <= last, begin <= 10358 <= end]


def test_intervals_cover_both_modes() -> None:
    assert np.array([covered(seed) for seed in range(40)]).sum(axis=0).min() >= 36
    few = two_modes([1.0] * 3 + [9.0] * 20)
    assert few is not None
    assert np.isnan(few.ranges[0]).all()
    assert few.ranges[1] == (9.0, 9.0)


def test_neighbouring_ticks_and_single_outliers_are_not_modes() -> None:
    assert two_modes([1024.0] * 10 + [1056.0] * 10, resolution=32) is None
    assert two_modes([1024.0] * 10 + [1056.0] * 10) is not None
    assert two_modes([1024.0] * 10 + [1088.0] * 10, resolution=32) is None  # two ticks: no more than that
    assert two_modes([1024.0] * 10 + [1089.0] * 10, resolution=32) is not None
    assert two_modes([10.0] * 39 + [20.0]) is None
    assert two_modes([5.0] * 40) is None
    assert two_modes([1.0, 1.0, 1.0, 9.0, 9.0, 9.0]) is None


def test_a_mode_holds_a_tenth_of_the_samples_in_whatever_unit() -> None:
    for unit in (1.0, 1e-9, 1e9):
        assert two_modes([10.0 * unit] * 29 + [20.0 * unit] * 4) is not None
        assert two_modes([10.0 * unit] * 30 + [20.0 * unit] * 3) is None  # of 33 a tenth is four
        assert two_modes([10.0 * unit] * 27 + [20.0 * unit] * 3) is not None


@pytest.mark.parametrize(("gap", "found"), [(3.15, False), (3.17, True)])
def test_a_gap_is_more_than_so_many_deviations_within_the_parts(gap: float, found: bool) -> None:
    """Of 20 samples three: a deviation within the parts is sqrt(20 / 18), and three are 3.162."""
    part = np.array([-1.0, 1.0] * 5)
    assert (two_modes([*part, *(part + 2 + gap)]) is not None) == found


def test_one_population_is_its_median() -> None:
    one = modes_of([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 20.0])
    assert one.values == (4.5,)
    assert str(one) == "one mode: 4.5 [1, 20] x 8"
    assert one.ms() == "one mode: 4.5e-06 [1e-06, 2e-05] x 8 ms"


def test_every_mode_of_one_arm_meets_every_mode_of_the_other() -> None:
    base, arm, one = modes_of([10.0] * 10 + [20.0] * 10), modes_of([5.0] * 10 + [40.0] * 10), modes_of([8.0] * 20)
    assert (one.values, one.counts, one.ranges) == ((8.0,), (20,), ((8.0, 8.0),))
    assert combinations(one, one) == []
    ratios = [math.exp(found.log[0]) for found in combinations(base, arm)]
    assert ratios == pytest.approx([0.5, 4.0, 0.25, 2.0])
    assert [found.exposed_ns for found in combinations(base, one)] == [(2.0, 2.0), (12.0, 12.0)]
    assert [math.exp(found.log[0]) for found in combinations(one, base)] == pytest.approx([1.25, 2.5])
    assert told({"full": base, "none": one}) == ("full: two modes: 1e-05 x 10 and 2e-05 x 10 ms",)


def test_an_interval_of_two_modes_reaches_from_end_to_end_and_no_less_than_the_ticks() -> None:
    base, arm = modes_of([*range(100, 120), *range(1000, 1020)]), modes_of([*range(200, 220)])
    (low, _), (base_range, _), (arm_range,) = combinations(base, arm), base.ranges, arm.ranges
    assert base_range == (105, 114)
    assert [math.exp(end) for end in low.log] == pytest.approx([209.5 / 109.5, arm_range[0] / 114, arm_range[1] / 105])
    assert low.exposed_ns == (105 - arm_range[1], 114 - arm_range[0])
    low, _ = combinations(base, arm, tick_ns=50.0)
    assert low.exposed_ns == (-200.0, 0.0)
    assert low.log[2] - low.log[0] == pytest.approx(50 / 109.5 + 50 / 209.5)
    none, _ = combinations(modes_of([1.0] * 3 + [9.0] * 20), modes_of([5.0] * 20), tick_ns=1.0)
    assert np.isnan([*none.log[1:], *none.exposed_ns]).all()
