"""Scopes as types, cold caches, impossible rates, stopping: cases 16, 24, 25, 27."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attribution.errors import DataError, InputError, MeasureError
from attribution.measure import cold, scopes, stopping
from attribution.measure.scopes import Scope, Time

FOUR = [
    Time(1.00e6, Scope("ncu", "cold"), "main"),
    Time(0.80e6, Scope("ncu", "warm"), "main"),
    Time(0.90e6, Scope("graph", "warm"), "main"),
    Time(0.91e6, Scope("cupti", "warm"), "main"),
]
"""One kernel under four instruments."""


@pytest.mark.parametrize("verb", ["__sub__", "__add__", "__truediv__", "__lt__"])
def test_no_two_of_four_scopes_meet(verb: str) -> None:
    for a in FOUR:
        for b in FOUR:
            if a is b:
                continue
            with pytest.raises(DataError, match="two scopes"):
                getattr(a, verb)(b)


def test_within_a_scope_times_are_numbers_that_remember_it() -> None:
    scope = Scope("graph")
    whole, part = Time(10.0, scope, "operator"), Time(4.0, scope, "main")
    assert (whole - part).ns == 6.0
    assert (whole - part).scope == scope
    assert (whole - part).stage == "operator - main"
    assert whole / part == 2.5
    assert part < whole
    with pytest.raises(TypeError):
        whole - 4.0  # type: ignore[operator]


def test_a_scope_that_differs_only_in_a_policy_is_another_scope() -> None:
    with pytest.raises(DataError):
        Time(1.0, Scope("graph", "warm"), "main") - Time(1.0, Scope("graph", "cold"), "main")


def test_names_that_do_not_exist_are_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="nearest: graph"):
        Scope("grph")
    with pytest.raises(InputError, match="cache policy 'hot'"):
        Scope("graph", "hot")


def test_an_asked_scope_that_is_missing_is_an_error_and_a_default_one_a_recorded_skip() -> None:
    missing = {"ncu": "ncu is not on the PATH"}
    with pytest.raises(MeasureError, match="ncu is not on the PATH"):
        scopes.choose(["graph", "ncu"], ["graph"], missing)
    used, skips = scopes.choose([], ["event", "graph", "ncu"], missing)
    assert used == ("event", "graph")
    assert skips == (scopes.Skip("ncu", "ncu is not on the PATH"),)


def test_cold_must_be_cold() -> None:
    """L2 of 50 MB, copies of 4 MB, 13 of them, 5 visited: 20 MB."""
    with pytest.raises(MeasureError, match=r"5 of 13 copies.*20 MB.*holds 50 MB"):
        cold.check_cold(4_000_000, 13, 5, 50_000_000)
    # All visited, but too few of them: 12 others between two uses are 48 MB.
    with pytest.raises(MeasureError, match="48 MB"):
        cold.check_cold(4_000_000, 13, 100, 50_000_000)
    need = cold.copies_for(4_000_000, 50_000_000)
    assert cold.check_cold(4_000_000, need, need + 1, 50_000_000) > 50_000_000
    assert cold.copies_for(2**31, 60 * 2**20) == 2


@pytest.mark.parametrize(
    ("read_bytes", "sectors", "hits", "passed"),
    [
        (16784640.0, 801403.0, 538634.0, True),
        (14e6, 801403.0, 538634.0, False),
        (768.0, 537645.0, 539226.0, False),
        (16784640.0, 537645.0, 539226.0, False),
        (math.nan, 801403.0, 538634.0, False),
        (16784640.0, math.nan, math.nan, False),
    ],
    ids=["cold", "half of it", "warm", "the L2 of a later pass", "memory not counted", "L2 not counted"],
)
def test_the_counters_must_agree_that_a_launch_was_cold(
    read_bytes: float, sectors: float, hits: float, passed: bool
) -> None:
    """What an H200 counted of hello on a matrix of 16.8 MB, cold and warm."""
    found, seen = cold.check_missed(read_bytes, sectors, hits, 64 * 65536 * 4)
    assert found == passed
    assert "MB came from memory, 16.8 MB must" in seen


def test_faster_than_the_memory_is_refused() -> None:
    """3530 GB/s on a chip of 864."""
    with pytest.raises(MeasureError, match="faster than the memory: 3530 GB/s where it can do 864"):
        cold.check_rate(3_530_000, 1000.0, 864e9)
    assert cold.check_rate(800_000, 1000.0, 864e9) == pytest.approx(800e9)
    assert cold.check_rate(3_530_000, 1000.0, math.nan) == pytest.approx(3530e9)
    with pytest.raises(MeasureError, match="is no time"):
        cold.check_rate(1, 0.0, 864e9)


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


@pytest.mark.parametrize("text", ["", "x", "0", "-1%", "200%", "1,5%"])
def test_precision_refuses_what_is_no_share(text: str) -> None:
    with pytest.raises(ValueError):
        stopping.precision_of(text)
    with pytest.raises(InputError, match="--margin"):
        stopping.share("--margin", text)
