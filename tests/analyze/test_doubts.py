"""Reasons against a contrast, each at the edge where it begins: shares of flagged samples, rounds, times that are elsewhere."""

from __future__ import annotations

import pandas as pd
import pytest
from planted import measured

from attribution.analyze.contrast import Contrast, contrast
from attribution.analyze.doubts import blocking

Tables = dict[str, pd.DataFrame]


def judged(tables: Tables, **options: object) -> Contrast:
    return contrast(**tables, **{"base": "full", "arm": "math_only", **options})  # type: ignore[arg-type]


def of_arm(tables: Tables) -> pd.Series:
    """Which rows of `times` are of math_only."""
    runs = tables["runs"]
    return tables["times"]["run"].isin(runs.loc[runs["arm"] == "math_only", "run"])


@pytest.mark.parametrize(
    ("flag", "marked", "blocks"),
    [
        ("host-bound", 2, False),
        ("host-bound", 3, True),
        ("clock-limited", 1, True),
        ("stages-overlap", 1, True),
        ("power-cap", 20, False),
    ],
)
def test_a_flag_blocks_above_its_share_and_others_never(flag: str, marked: int, blocks: bool) -> None:
    samples = pd.Series([f"{flag},other"] * marked + [""] * (20 - marked))
    assert blocking(samples, "full") == ({flag: f"{flag}: {marked} of 20 samples of full"} if blocks else {})
    assert [*blocking(samples).values()] == ([f"{flag}: {marked} of 20 samples"] if blocks else [])


def test_times_that_are_elsewhere_are_named_and_unlike_scopes_are_those_of_the_stage() -> None:
    tables = measured()
    mine = of_arm(tables)
    times = tables["times"].astype({"scope": str, "stage": str})
    times.loc[mine, "scope"] = "event"
    words = "math_only has times of operator in event/none/none only"
    assert judged({**tables, "times": times}, scope="host-virtual").reasons[0] == f"unlike scope: {words}"
    both = pd.concat([times, times[mine].assign(stage="main")])
    assert judged({**tables, "times": both}, scope="host-virtual").reasons[0] == (
        "unlike scope: math_only has times of main in event/none/none, operator in event/none/none only"
    )
    times.loc[mine, "stage"] = "main"
    assert judged({**tables, "times": times}, scope="host-virtual").reasons[0] == (
        "missing arm: math_only has times of main in event/none/none only"
    )
    none = judged({**tables, "times": times[~mine]})
    assert (none.verdict, none.reasons[0]) == ("void", "missing arm: math_only has times of no kind only")


def test_an_arm_is_missing_only_where_no_run_of_it_ended_well() -> None:
    tables = measured()
    runs = tables["runs"].astype({"status": str, "reason": str})
    mine = runs["arm"] == "math_only"
    runs.loc[mine & (runs["round"] < 19), ["status", "reason"]] = ["failed", "illegal address"]
    one_left = judged({**tables, "runs": runs})
    assert (one_left.verdict, one_left.pairs) == ("undecided", 1)
    runs.loc[mine, ["status", "reason"]] = ["failed", "illegal address"]
    none_left = judged({**tables, "runs": runs})
    assert none_left.verdict == "void"
    assert none_left.reasons[0] == "missing arm: no run of math_only ended ok: illegal address"


def test_rounds_are_counted_of_the_two_arms_only() -> None:
    """The null arm was there in two rounds more, the base in one more."""
    tables = measured()
    runs = tables["runs"]
    lost = ((runs["round"] == 19) & (runs["arm"] != "null")) | ((runs["round"] == 18) & (runs["arm"] == "math_only"))
    found = judged({**tables, "runs": runs[~lost]}, planned_rounds=20)
    assert "1 of 19 rounds have no pair" in found.reasons
    assert "19 of 20 planned rounds are there" in found.reasons
    assert found.flags == ("rounds-lost", "rounds-missing")


def test_a_clock_is_unknown_where_no_sample_has_one_and_the_scope_has_a_clock() -> None:
    tables = measured()
    assert judged(tables).flags == ()
    known = tables["times"].assign(clock="as-found")
    assert judged({**tables, "times": known}).flags == ("clock-unknown",)
    known.loc[known["run"].isin(tables["runs"].loc[tables["runs"]["round"] == 0, "run"]), "clock_mhz"] = 1980.0
    assert judged({**tables, "times": known}).flags == ()
