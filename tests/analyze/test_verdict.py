"""Words for intervals, at their edges: which end counts as inside, and what half an interval says."""

from __future__ import annotations

import math

import pytest

from attribution.analyze.verdict import VERDICTS, decide, judge, settle, stated_for

EDGE = math.log1p(0.01)
NAN = math.nan


@pytest.mark.parametrize(
    ("center", "low", "high", "floor", "word"),
    [
        (0.0, -EDGE, EDGE, NAN, "same"),
        (0.0, -EDGE, 1.01 * EDGE, NAN, "undecided"),
        (0.0, -1.01 * EDGE, EDGE, NAN, "undecided"),
        (0.05, 0.0, 0.1, NAN, "undecided"),
        (-0.05, -0.1, 0.0, NAN, "undecided"),
        (0.05, 0.001, 0.1, NAN, "slower"),
        (-0.05, -0.1, -0.001, NAN, "faster"),
        (-0.05, -0.1, -0.001, 0.05, "undecided"),
        (-0.05, -0.1, -0.001, 0.049, "faster"),
        (0.05, NAN, 0.1, NAN, "undecided"),
        (0.05, 0.001, NAN, NAN, "undecided"),
    ],
)
def test_an_interval_is_decided_at_its_edges(center: float, low: float, high: float, floor: float, word: str) -> None:
    assert decide(center, low, high, floor, margin=0.01)[0] == word


def test_there_is_one_vocabulary() -> None:
    intervals = [(-0.2, -0.3, -0.1), (0.2, 0.1, 0.3), (0.0, 0.0, 0.0), (0.0, -0.1, 0.1)]
    assert {*(decide(*each)[0] for each in intervals), "void"} == set(VERDICTS)


def test_the_floor_is_said_as_a_ratio() -> None:
    assert decide(0.05, 0.02, 0.08, floor=math.log(1.1))[1].endswith("may differ by 10.00%")


def test_one_mode_without_an_interval_leaves_nothing_decided() -> None:
    slower = (0.2, 0.1, 0.3)
    assert settle(slower, [slower, slower], ["two modes"])[0] == "slower"
    word, reason = settle(slower, [slower, (0.2, NAN, NAN)], ["two modes"])
    assert word == "undecided"
    assert reason.startswith("two modes: slower over the rounds")
    assert reason.endswith("1 slower, 1 without an interval")


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.5, 0.9, "supported"),
        (0.4, 0.5, "undecided"),  # touching ends are inside
        (0.9, 1.0, "undecided"),
        (0.4, 0.49, "refuted"),
        (0.91, 1.0, "refuted"),
        (0.4, 1.0, "undecided"),
        (NAN, 0.4, "undecided"),
        (1.0, NAN, "undecided"),
    ],
)
def test_an_expectation_is_judged_at_its_edges(low: float, high: float, word: str) -> None:
    assert judge(low, high, (0.5, 0.9)) == word


def test_sizes_that_an_expectation_was_not_written_for_are_said() -> None:
    expects = {"time_ratio": (0.5, 0.9), "n": (4096, 8192)}
    assert stated_for(expects, "q=8,n=8192") == ({"time_ratio": (0.5, 0.9)}, "")
    assert stated_for(expects, "q=8,n=4096")[1] == ""
    assert stated_for(expects, "q=8,n=8193")[1] == "n = 8193, written for 4096 to 8192"
    assert stated_for(expects, "q=8,n=4095")[1] == "n = 4095, written for 4096 to 8192"
    assert stated_for(expects, "") == (expects, "")
