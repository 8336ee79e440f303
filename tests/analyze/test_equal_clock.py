"""Times at one clock: a wandering clock is taken out, a slower arm is not, and what does not follow the clock stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attribution.analyze.equal_clock import CLOCK, equal_clock, slope
from attribution.analyze.noise import noise
from attribution.analyze.pairing import scoped
from attribution.errors import DataError
from attribution.measure.scopes import Scope
from attribution.recording import open_recording

TRACES = Path(__file__).parents[2] / "traces"


def planted(follows: float, ratio: float = 1.003, rounds: int = 40) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two arms, the second `ratio` slower; the clock wanders by 5 %, and times follow it with this power."""
    rng = np.random.default_rng(3)
    runs = pd.DataFrame({"run": range(2 * rounds), "question": "full", "arm": ["full", "slow"] * rounds})
    clock = 1700 * np.exp(0.05 * rng.normal(size=2 * rounds))
    time = (
        1e6
        * np.where(runs["arm"] == "slow", ratio, 1.0)
        * (clock / 1700) ** follows
        * np.exp(0.0005 * rng.normal(size=2 * rounds))
    )
    rest = {"scope": "graph", "stage": "operator", "cache": "warm", "clock": "as-found", "sample": 0, "flags": ""}
    return runs, pd.DataFrame({"run": runs["run"], "time_ns": time, "clock_mhz": clock}).assign(**rest)


def log_ratio(runs: pd.DataFrame, times: pd.DataFrame) -> np.ndarray:
    ns = times.set_index("run")["time_ns"].to_numpy()
    return np.asarray(np.log(ns[1::2] / ns[::2]))


@pytest.mark.parametrize("follows", [-1.0, -0.5, 0.0], ids=["compute", "mixed", "memory"])
def test_a_wandering_clock_is_taken_out_and_the_effect_stays(follows: float) -> None:
    runs, times = planted(follows)
    found = log_ratio(runs, equal_clock(runs, times))
    assert found.mean() == pytest.approx(np.log(1.003), abs=5e-4)
    assert found.std() < 0.0015
    if follows:
        assert log_ratio(runs, times).std() > 10 * found.std()


def test_a_slope_is_one_that_a_kernel_can_have() -> None:
    clock = np.log(np.linspace(1500, 1800, 30))
    assert slope(clock, -3 * clock) == -1.0
    assert slope(clock, 2 * clock) == 0.0
    assert slope(np.full(30, 7.0), clock) == 0.0
    assert slope(clock[:2], -clock[:2]) == 0.0
    assert slope(clock[:3], -0.5 * clock[:3]) == pytest.approx(-0.5)


def test_it_is_a_scope_of_its_own() -> None:
    runs, times = planted(-1.0)
    moved = equal_clock(runs, times)
    assert set(moved["clock"]) == {CLOCK}
    assert Scope("graph", "warm", CLOCK) != Scope("graph")
    with pytest.raises(DataError, match="two scopes"):
        scoped(pd.concat([times, moved]), "graph")
    with pytest.raises(DataError, match="no sample has an SM clock"):
        equal_clock(runs, times.assign(clock_mhz=np.nan))


@pytest.mark.parametrize("column", ["question", "scope", "cache", "clock", "stage"])
def test_what_was_measured_elsewhere_sets_no_clock_here(column: str) -> None:
    """Planted: the same runs again, elsewhere, at a clock and with times that have nothing to do with these."""
    runs, times = planted(-0.5)
    alone = equal_clock(runs, times)["time_ns"].to_numpy()
    last = len(runs)
    again = runs.assign(run=runs["run"] + last, **({column: "other"} if column == "question" else {}))
    other = times.assign(run=times["run"] + last, clock_mhz=2 * times["clock_mhz"], time_ns=7e6)
    both = pd.concat([times, other.assign(**({} if column == "question" else {column: "other"}))], ignore_index=True)
    np.testing.assert_allclose(equal_clock(pd.concat([runs, again]), both)["time_ns"].to_numpy()[:last], alone)


def test_on_a_card_whose_clock_wanders_smaller_effects_are_told() -> None:
    recording = open_recording(TRACES / "h200-precision-128k-moved")
    (found,), (moved,) = (noise(recording, at_one_clock=flag).to_dict("records") for flag in (False, True))
    assert moved["scope"] == f"graph/warm/{CLOCK}"
    assert moved["detectable_all"] < found["detectable_all"] / 3
    assert moved["called"] <= 4
