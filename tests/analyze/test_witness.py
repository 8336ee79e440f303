"""Two witnesses of one share: when they agree, and what they are made of."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from attribution.analyze import witness
from attribution.analyze.witness import Pair, Share


def pair(first: Share | None, second: Share | None) -> Pair:
    return Pair("term", first, second)


def share(value: float, half: float = 0.03, tick: float = 0.0) -> Share:
    return Share("here", value, value - half, value + half, tick)


def test_they_agree_within_both_intervals_and_ticks() -> None:
    one, other = share(0.30, 0.03), share(0.25, 0.04)
    assert pair(one, other).tolerance == pytest.approx(0.05)
    assert pair(one, other).difference == pytest.approx(0.05)
    for value, word in (
        (0.3499, "agree"),
        (0.3501, "witnesses disagree"),
        (0.2501, "agree"),
        (0.2499, "witnesses disagree"),
    ):
        assert pair(one, share(value, 0.04)).verdict == word
        assert pair(share(value, 0.04), one).verdict == word
    # A tick of either is allowed on top.
    for first, second in ((share(0.30, 0.03, 0.01), share(0.359, 0.04)), (share(0.30, 0.03), share(0.359, 0.04, 0.01))):
        assert pair(first, second).tolerance == pytest.approx(0.06)
        assert pair(first, second).verdict == "agree"


def test_equal_to_the_tolerance_is_agreement() -> None:
    assert pair(share(0.5, 0.0, 0.25), share(0.25, 0.0)).verdict == "agree"


def test_what_is_missing_is_said_and_no_number() -> None:
    known, blind = share(0.3), Share("there", 0.3)
    assert pair(known, blind).verdict == pair(blind, known).verdict == "not confirmed"
    assert pair(known, None).verdict == pair(None, known).verdict == "one witness"
    assert pair(None, None).verdict == "no witness"
    for first, second in ((known, None), (None, known)):
        assert math.isnan(pair(first, second).difference)
        assert math.isnan(pair(first, second).tolerance)
    row = pair(None, known).row()
    assert (row["first"], row["second"], row["second_low"], row["second_high"]) == ("", "here", known.low, known.high)
    assert math.isnan(row["first_value"])
    (line,) = witness.table([pair(known, blind)]).to_dict("records")
    assert (line["term"], line["first_value"], line["verdict"], line["note"]) == ("term", 0.3, "not confirmed", "")


ACCOUNT = pd.DataFrame(
    {
        "round": range(6),
        "wait_consumer": 0.10 + 0.001 * np.arange(6),
        "drain": 0.05,
        "processing": 0.80,
        "total_ns": 1000.0,
        "clock_mhz": 1500.0,
    }
)
"""Shares of the base's traced runs."""
LOWER = pd.DataFrame(
    {
        "round": range(6),
        "wait_consumer": 0.0,
        "drain": 0.025,
        "processing": 0.90,
        "total_ns": 800.0,
        "clock_mhz": 1800.0,
    }
)
"""Shares of its control's."""
CONTROL = (0.18, 0.2, 0.23)


def test_exposed_time_is_the_traces_waits_and_drain() -> None:
    found = witness.exposed(CONTROL, ACCOUNT, LOWER.iloc[:0], ("full", "score_only", "time"), (0.001, 0.002), "a note")
    assert found.first == Share("control full - score_only, time", 0.2, 0.18, 0.23, 0.001)
    assert found.second is not None
    assert (found.term, found.note) == ("exposed above score_only", "a note")
    assert (found.second.source, found.second.tick) == ("trace: waits + drain", 0.002)
    assert found.second.value == pytest.approx(0.1525)
    assert found.second.low < 0.1525 < found.second.high


@pytest.mark.parametrize(("unit", "clock"), [("time", 1.0), ("cycles", 1800 / 1500)])
def test_with_the_controls_trace_its_longer_processing_counts_too(unit: str, clock: float) -> None:
    found = witness.exposed(CONTROL, ACCOUNT, LOWER, ("full", "score_only", unit), (0.001, 0.002), "a note")
    assert found.second is not None
    assert found.second.source == "trace: waits + drain + longer processing"
    assert found.second.value == pytest.approx(0.9525 - 0.925 * 0.8 * clock)
    assert (found.second.tick, found.note) == (0.002, "a note")


def test_without_a_trace_the_control_is_alone() -> None:
    found = witness.exposed(CONTROL, ACCOUNT.iloc[:0], LOWER, ("full", "score_only", "time"), (0.0, 0.0))
    assert (found.verdict, found.note) == ("one witness", "full has no trace")


def test_the_tail_has_a_tick_at_both_ends() -> None:
    parts = pd.DataFrame({"finish_ns": [900.0, 1100.0] * 4, "by_rows": [0.1, 0.12] * 4})
    found = witness.tail(parts, (0.09, 0.1, 0.13), "row law", 5.0)
    assert found.second == Share("row law", 0.1, 0.09, 0.13)
    assert found.first is not None
    assert (found.first.value, found.first.tick) == (pytest.approx(0.11), 2 * 5.0 / 1000.0)
    none = witness.tail(parts.iloc[:0], (0.09, 0.1, 0.13), "row law", 5.0)
    assert (none.verdict, none.note) == ("one witness", "no trace: no finish time per SM")


def test_tensor_time_of_one_count_is_not_confirmed_and_whole_tiles_are_allowed() -> None:
    arithmetic = (0.60, 0.61, 0.62)
    many = witness.tensor(np.array([0.63, 0.64, 0.65]), arithmetic, "counters", 0.02)
    assert many.second == Share("arithmetic: useful FLOP / peak / time", 0.61, 0.60, 0.62, 0.02)
    assert many.first is not None
    assert many.first.value == pytest.approx(0.64)
    one = witness.tensor(np.array([0.64]), arithmetic, "counters")
    assert (one.verdict, one.first) == ("not confirmed", Share("counters", 0.64))
    none = witness.tensor(np.array([]), arithmetic, "counters")
    assert (none.verdict, none.note) == ("one witness", "no counter of matrix instructions and cycles")


def test_a_share_of_constant_runs_is_as_wide_as_its_tick() -> None:
    coarse, unknown = (witness.measured("here", np.full(5, 0.3), tick) for tick in (0.01, 0.0))
    assert coarse.low <= 0.29
    assert coarse.high >= 0.31
    assert (coarse.source, coarse.tick, unknown.tick) == ("here", 0.01, 0.0)
    assert math.isnan(unknown.low)
