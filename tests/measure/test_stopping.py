"""When rounds end: at the width that was asked for or at the end of the budget, and never by where the interval lies."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from attribution.errors import InputError
from attribution.measure import stopping


def test_no_interval_of_zero_width() -> None:
    assert stopping.half_width([0.01]) == math.inf
    assert stopping.half_width([0.01] * 50) == math.inf
    assert stopping.half_width([]) == math.inf


def test_half_width_covers_as_often_as_it_says_and_widens_under_autocorrelation() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(0, 0.01, (400, 24))
    inside = [abs(row.mean()) <= stopping.half_width(row) for row in data]
    assert np.mean(inside) > 0.96
    walk = np.cumsum(rng.normal(0, 0.003, 60))
    assert stopping.half_width(walk) > 2 * stopping.half_width(rng.permutation(walk))


def test_rounds_go_on_until_every_arm_is_narrow() -> None:
    rng = np.random.default_rng(1)
    quiet, loud = rng.normal(0, 0.001, 200), rng.normal(0, 0.01, 200)
    progress = stopping.Progress(stopping.Rule(0.002), began_s=0.0)
    one = progress.decide({"a": quiet[:12], "b": loud[:12]}, now_s=1.0)
    assert not one.stop
    assert one.half_widths["a"] < 0.002 < one.half_widths["b"]
    assert one.reason == f"+-{100 * one.half_widths['b']:.3g} %, not yet +-0.2 %"
    two = progress.decide({"a": quiet, "b": loud}, now_s=2.0)
    assert two.stop
    assert two.reached


def test_a_spent_budget_stops_and_says_that_nothing_was_reached() -> None:
    progress = stopping.Progress(stopping.Rule(1e-6, seconds=10.0), began_s=0.0)
    ratios = {"a": np.random.default_rng(2).normal(0, 0.01, 12)}
    assert not progress.decide(ratios, now_s=4.0).stop
    last = progress.decide(ratios, now_s=8.0)  # a third design would end at 12 s
    assert last.stop
    assert not last.reached
    assert "budget of 10 s is spent" in last.reason


@pytest.mark.parametrize(("text", "value"), [("0.2%", 0.002), ("0.002", 0.002), (" 1 % ", 0.01)])
def test_precision_reads_percent_and_shares(text: str, value: float) -> None:
    assert stopping.precision_of(text) == pytest.approx(value)
    assert stopping.share("--margin", text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "x", "0", "1", "-1%", "100%", "200%", "1,5%"])
def test_precision_refuses_what_is_no_share(text: str) -> None:
    with pytest.raises(ValueError):
        stopping.precision_of(text)
    with pytest.raises(InputError, match="--margin"):
        stopping.share("--margin", text)


def test_autocorrelated_rounds_are_worth_fewer_and_never_more() -> None:
    """Pairs of alike values, twelve in all: lag one is 1/12, so that they are worth 12 * 11/13; alternating ones are worth 12."""
    twelve = [0.06, 0.06, 0.04, 0.04] * 3
    spread, worth = 0.01 * math.sqrt(12 / 11), 12 * 11 / 13
    assert stopping.half_width(twelve) == pytest.approx(stats.t.ppf(0.99, worth - 1) * spread / math.sqrt(worth))
    assert stopping.half_width([0.06, 0.04] * 6) == pytest.approx(stats.t.ppf(0.99, 11) * spread / math.sqrt(12))
    # Two halves: worth less than two, and two are the least that have an interval.
    halves = stopping.half_width([0.06] * 6 + [0.04] * 6)
    assert halves == pytest.approx(stats.t.ppf(0.99, 1) * spread / math.sqrt(2))


def test_six_pairs_are_the_least() -> None:
    assert stopping.half_width([0.01, -0.01] * 2 + [0.01]) == math.inf
    assert stopping.half_width([0.01, -0.01] * 3) < math.inf


def test_exactly_as_narrow_as_asked_is_reached_and_said() -> None:
    ratios = [0.01, -0.01] * 6
    width = stopping.half_width(ratios)
    last = stopping.Progress(stopping.Rule(width)).decide({"a": ratios})
    assert (last.stop, last.reached) == (True, True)
    assert last.reason == f"+-{100 * width:.3g} % of +-{100 * width:g} % asked"


def test_without_any_ratio_nothing_is_reached() -> None:
    none = stopping.Progress(stopping.Rule(0.002)).decide({})
    assert (none.stop, none.reached, none.reason) == (False, False, "+-inf %, not yet +-0.2 %")


def test_the_budget_is_counted_from_the_begin_and_holds_the_next_design() -> None:
    """A second design that ends as the budget does is begun, a third that would end after it is not."""
    wide = {"a": [0.01, -0.01] * 6}
    for first, second, stops in ((5.0, 6.6, (False, False)), (5.0, 6.7, (False, True)), (5.1, 6.0, (True, False))):
        progress = stopping.Progress(stopping.Rule(1e-6, seconds=10.0), began_s=100.0)
        assert tuple(progress.decide(wide, 100 + spent).stop for spent in (first, second)) == stops
