"""Intervals cover what was planted, widen under autocorrelation, and are absent when due."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from planted import measured, noise

from attribution.analyze import stats
from attribution.errors import DataError


@pytest.mark.parametrize(("pairs", "phi"), [(6, 0.0), (10, 0.0), (10, 0.3), (20, 0.0), (20, 0.3), (20, 0.6), (29, 0.7)])
def test_intervals_cover_the_planted_value(pairs: int, phi: float) -> None:
    """95 % intervals of 2000 series cover in at least 92 %; verdict intervals miss at most 5 %.

    Not for ten pairs at 0.6: too short a series to show how much it is autocorrelated (91 %).
    """
    series = 0.01 + 0.003 * noise(np.random.default_rng(5), (2000, pairs), phi)
    found = stats.intervals(series)
    assert np.mean((found.low <= 0.01) & (found.high >= 0.01)) >= 0.92
    strict = stats.intervals(series, stats.VERDICT_LEVEL)
    assert np.mean((strict.low > 0.01) | (strict.high < 0.01)) <= 0.05


@pytest.mark.parametrize("phi", [0.0, 0.5])
def test_bootstrap_intervals_cover_the_planted_value(phi: float) -> None:
    series = 0.01 + 0.003 * noise(np.random.default_rng(6), (300, 40), phi)
    found = stats.intervals(series)
    assert found.method == "BCa"
    # Binomial with 300 draws of 0.95 has a standard deviation of 1.3 %.
    assert np.mean((found.low <= 0.01) & (found.high >= 0.01)) >= 0.90


def test_ignoring_autocorrelation_would_not_cover() -> None:
    """The check above can fail: the plain t interval covers far too little at phi = 0.6."""
    series = noise(np.random.default_rng(5), (2000, 20), 0.6)
    plain = stats.student_width(series, np.full(2000, 20.0), 0.95)
    assert np.mean(np.abs(series.mean(axis=1)) <= plain) < 0.75


def test_autocorrelated_rounds_are_noticed() -> None:
    rng = np.random.default_rng(1)
    alone = stats.effective_pairs(noise(rng, (500, 100), 0.0)).mean()
    chained = stats.effective_pairs(noise(rng, (500, 100), 0.6)).mean()
    assert 70 < alone <= 100
    assert 10 < chained < 30  # 100 (1 - 0.6) / (1 + 0.6) is 25, and half a standard error less.


def test_lag_one_is_unbiased_enough() -> None:
    series = noise(np.random.default_rng(2), (4000, 20), 0.4)
    assert stats.lag_one(series).mean() == pytest.approx(0.4, abs=0.05)


@pytest.mark.parametrize("values", [[5.0], []])
def test_fewer_than_two_pairs_have_no_interval(values: list[float]) -> None:
    found = stats.intervals([values])
    assert np.isnan(found.low).all()
    assert np.isnan(found.high).all()


@pytest.mark.parametrize("pairs", [2, 3, 30, 40])
def test_constant_data_has_no_zero_width_interval(pairs: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = stats.intervals([0.1 + 0.2] * pairs)
        known = stats.intervals([5.0] * pairs, resolution=0.5)
    assert np.isnan([found.low[0], found.high[0]]).all()
    assert (known.low[0], known.high[0]) == (4.5, 5.5)


def test_noise_below_the_tick_counts_as_the_tick() -> None:
    values = 5 + 1e-3 * noise(np.random.default_rng(0), (1, 20), 0.0)
    found = stats.intervals(values, resolution=0.032)
    assert found.high[0] - found.low[0] == pytest.approx(0.064)


def test_the_same_data_give_the_same_interval() -> None:
    values = noise(np.random.default_rng(0), (2, 50), 0.0)
    first, second = stats.intervals(values), stats.intervals(values)
    assert first.low.tolist() == second.low.tolist()


def test_detectable_effect_is_found_in_four_of_five() -> None:
    """Two-sided 5 % t tests at the stated effect: 80 % power by definition."""
    rng = np.random.default_rng(3)
    data = 0.003 * noise(rng, (2000, 20), 0.0)
    effect = float(np.median(stats.detectable_effect(data)))
    shifted = stats.intervals(data + effect)
    assert 0.72 <= np.mean(shifted.low > 0) <= 0.9
    # Known variance, many pairs: 2.80 standard errors.
    many = stats.detectable_effect(noise(rng, (200, 2000), 0.0)).mean() * np.sqrt(2000)
    assert many == pytest.approx(2.80, abs=0.1)
    assert np.isnan(stats.detectable_effect([5.0, 5.0, 5.0])).all()
    assert np.isnan(stats.detectable_effect([5.0])).all()


def _with_times(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    return tables["runs"].merge(tables["times"][["run", "time_ns"]], on="run")


def test_a_planted_position_effect_is_found() -> None:
    frame = _with_times(measured({"a": 1.0, "b": 0.9, "c": 1.2}, rounds=18))
    assert stats.order_effects(frame)["p_value"].iloc[0] > 0.01
    frame.loc[frame["position"] == 0, "time_ns"] *= 1.03
    found = stats.order_effects(frame).set_index("level")
    assert found["p_value"].iloc[0] < 1e-6
    assert found.loc[0, "low"] < 1.03 ** (2 / 3) < found.loc[0, "high"]


def test_a_planted_predecessor_effect_is_found() -> None:
    frame = _with_times(measured({"a": 1.0, "b": 0.9, "c": 1.2}, rounds=18))
    frame.loc[frame["predecessor"] == "b", "time_ns"] *= 1.03
    found = stats.order_effects(frame, "predecessor").set_index("level")
    assert found["p_value"].iloc[0] < 1e-6
    assert found["ratio"].idxmax() == "b"


def test_rotation_cannot_tell_predecessor_from_arm() -> None:
    arms = "abcd"
    rows = [
        {"round": r, "arm": arms[(p + r) % 4], "time_ns": 1.0 + p,
         "predecessor": arms[(p + r - 1) % 4]}
        for r in range(8)
        for p in range(4)
    ]  # fmt: skip
    assert stats.order_effects(pd.DataFrame(rows), "predecessor").empty
    with pytest.raises(DataError, match="position"):
        stats.order_effects(pd.DataFrame(rows))
