"""Effects of place and predecessor: estimated from the recording, found where one is planted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attribution.analyze.carry_over import carry_over, unbalanced
from attribution.recording import Recording, open_recording

TRACES = Path(__file__).parents[2] / "traces"


@pytest.fixture(scope="module")
def recording() -> Recording:
    return open_recording(TRACES / "h200-precision-128k-moved")


def test_every_place_and_every_predecessor_has_a_row(recording: Recording) -> None:
    found = carry_over(recording)
    assert set(found["scope"]) == {"graph/warm/as-found"}
    levels = {by: list(part["level"]) for by, part in found.groupby("by")}
    assert levels == {"position": [0, 1, 2], "predecessor": ["(first)", "full", "null", "planted"]}
    assert ((found["low"] <= found["ratio"]) & (found["ratio"] <= found["high"])).all()
    # Turns with rests: whatever the order does is small.
    assert (found["ratio"] - 1).abs().max() < 0.01


def test_a_planted_carry_over_is_found_and_named(recording: Recording) -> None:
    """Planted: whatever runs behind `null` takes 1 % longer."""
    runs, times = recording.table("runs"), recording.table("times")
    behind = times["run"].isin(runs.loc[runs["predecessor"] == "null", "run"])
    slow = times.assign(time_ns=times["time_ns"] * np.where(behind, 1.01, 1.0))
    tables = {"runs": runs, "times": slow}
    planted: Any = SimpleNamespace(table=tables.__getitem__)
    found = carry_over(planted).query("by == 'predecessor'").set_index("level")
    assert found.loc["null", "ratio"] / found.loc["full", "ratio"] == pytest.approx(1.01, abs=0.002)
    assert found["p_value"].iloc[0] < 1e-6


def test_the_verb_prints_them(attr: Any) -> None:
    done = attr("noise", "h200-precision-128k", "--order")
    assert done.code == 0
    assert "predecessor" in done.out


def test_whole_designs_are_balanced_and_rounds_cut_short_or_lost_are_said(recording: Recording) -> None:
    """Planted: rounds taken away, and runs that failed."""
    assert unbalanced(open_recording(TRACES / "h200-precision-128k-two-rests")) == []
    assert (
        unbalanced(open_recording(TRACES / "h200-index-topk-math-only")) == []
    )  # traced and profiled runs belong to no round
    runs, times = recording.table("runs"), recording.table("times")
    for spoiled in (
        runs[runs["round"] < 7],
        runs.assign(status=np.where(runs["run"] == 5, "failed", runs["status"].astype(str))),
    ):
        planted: Any = SimpleNamespace(table={"runs": spoiled, "times": times}.__getitem__)
        (text,) = unbalanced(planted)
        assert text.startswith("the order of full is unbalanced: an arm is at one position ")


def test_an_unbalanced_order_is_said_where_it_was_run_and_where_it_is_looked_at(attr: Any, tmp_path: Path) -> None:
    small = ("--shape", "q=6,n=2048", "--flag", "K=512,SEGMENT_CAPACITY=184", "--knob", "sms=2", "--machine", "host")
    said = "the order of full is unbalanced: an arm is at one position 0 to 1 times"
    done = attr("run", "--variant", "math_only", *small, "--rounds", 3, "--out", tmp_path / "a")
    assert (done.code, said in done.out) == (0, True), done.err
    assert said in attr("noise", tmp_path / "a", "--order", "--rounds", 3).out
    done = attr("run", "--variant", "math_only", *small, "--rounds", 4, "--out", tmp_path / "b")
    assert (done.code, "is unbalanced" in done.out) == (0, False), done.err
