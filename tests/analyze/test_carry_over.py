"""Effects of place and predecessor: estimated from the recording, found where one is planted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
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


def of(runs: pd.DataFrame, times: pd.DataFrame) -> Any:
    """A recording of these two tables."""
    return SimpleNamespace(table={"runs": runs, "times": times}.__getitem__)


def test_what_belongs_to_no_round_or_ended_badly_or_was_traced_counts_nowhere(recording: Recording) -> None:
    """Planted: the same runs under profilers, ten times as slow; and runs that failed, or were traced, ten times as slow."""
    runs, times = recording.table("runs"), recording.table("times").astype({"scope": str, "stage": str})
    slow = times.assign(time_ns=10 * times["time_ns"])
    others = [slow.assign(scope=scope) for scope in ("ncu", "cupti", "trace")] + [slow.assign(stage="merge")]
    runs = runs.astype({"status": str, "arm": str})
    last = runs["run"].max()
    worse = [
        runs.assign(run=runs["run"] + last + 1, status="failed"),
        runs.assign(run=runs["run"] + 2 * last + 2, arm=runs["arm"] + "+trace"),
    ]
    later = [slow.assign(run=times["run"] + n * (last + 1)) for n in (1, 2)]
    spoiled = of(pd.concat([runs, *worse]), pd.concat([times, *others, *later]))
    pd.testing.assert_frame_equal(carry_over(spoiled), carry_over(recording))
    assert unbalanced(spoiled) == []


def test_a_runs_time_is_the_median_of_its_samples(recording: Recording) -> None:
    runs, times = recording.table("runs"), recording.table("times")
    medians = times.groupby("run", as_index=False).agg(dict.fromkeys(times.columns.drop("run"), "first"))
    medians["time_ns"] = times.groupby("run")["time_ns"].median().to_numpy()
    late = pd.concat([medians, medians, medians.assign(time_ns=(1 + medians["run"] % 7) * medians["time_ns"])])
    pd.testing.assert_frame_equal(carry_over(of(runs, late)), carry_over(recording))


def test_main_counts_as_the_operator_does_and_a_run_without_a_time_is_left_out(recording: Recording) -> None:
    runs, times = recording.table("runs"), recording.table("times").astype({"stage": str})
    main = carry_over(of(runs, times.assign(stage="main")))
    pd.testing.assert_frame_equal(main.drop(columns="stage"), carry_over(recording).drop(columns="stage"))
    assert set(main["stage"]) == {"main"}
    lost = carry_over(of(runs, times[times["run"] != 5]))
    pd.testing.assert_frame_equal(lost, carry_over(of(runs[runs["run"] != 5], times)))


def test_scopes_are_told_apart_by_instrument_cache_and_clock(recording: Recording) -> None:
    runs, times = recording.table("runs"), recording.table("times").astype({"scope": str, "cache": str, "clock": str})
    for other in ({"scope": "event"}, {"cache": "cold"}, {"clock": "equal-clock"}):
        both = carry_over(of(runs, pd.concat([times, times.assign(**other)])))
        label = "/".join({"scope": "graph", "cache": "warm", "clock": "as-found", **other}.values())
        assert set(both["scope"]) == {"graph/warm/as-found", label}


def test_without_times_there_are_no_rows_and_all_columns(recording: Recording) -> None:
    found = carry_over(of(recording.table("runs"), recording.table("times").iloc[:0]))
    assert (len(found), [*found]) == (0, [*carry_over(recording)])
    assert {*found} == {"scope", "stage", "by", "level", "ratio", "low", "high", "p_value"}


def test_rounds_of_two_distributions_or_shapes_are_not_one(recording: Recording) -> None:
    runs, times = recording.table("runs"), recording.table("times")
    last = runs["run"].max() + 1
    for other in ({"distribution": "other"}, {"shape": "q=1"}):
        again = runs.assign(run=runs["run"] + last, **other)
        both = of(pd.concat([runs, again]), pd.concat([times, times.assign(run=times["run"] + last)]))
        assert unbalanced(both) == []
        cut = pd.concat([runs, again])
        (text,) = unbalanced(of(cut[cut["round"] < 7], both.table("times")))
        assert "an arm is at one position 4 to 6 times" in text  # twice 2 to 3


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
