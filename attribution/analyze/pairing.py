"""Which runs and times make a pair: one point, one scope, one run of each arm per round.

In: the tables runs and times.  Out: selections of them, and one row per paired round.
Misuse: nothing is averaged over shapes, knobs or scopes here; what is left ambiguous raises.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from attribution.errors import DataError


def scoped(times: pd.DataFrame, scope: str | None) -> pd.DataFrame:
    """The rows of one scope, with a column `scope_label` (instrument/cache/clock).

    Raises DataError when two scopes are left, and names both.
    """
    label = times["scope"].astype(str) + "/" + times["cache"].astype(str)
    label = label + "/" + times["clock"].astype(str)
    if scope is not None:
        mine = (times["scope"] == scope) | (label == scope)
        times, label = times[mine], label[mine]
    if len(both := sorted(label.unique())) > 1:
        raise DataError(f"times of two scopes cannot be combined: {both[0]} and {both[1]}; choose one scope")
    return times.assign(scope_label=label)


def only(here: pd.DataFrame, column: str) -> str:
    """The only value of a column, '' when there are no rows.  Raises DataError."""
    values = sorted(here[column].astype(str).unique())
    if len(values) > 1:
        raise DataError(
            f"one contrast needs one {column}, and these runs have {values[0]} and {values[1]}; "
            "narrow the runs, or use contrasts() for a row each"
        )
    return values[0] if values else ""


def point(runs: pd.DataFrame, base: str, arm: str, null_arm: str | None, question: str | None) -> pd.DataFrame:
    """The runs of the arms, of one question.  Raises DataError."""
    here = runs[runs["arm"].isin([base, arm, *([null_arm] if null_arm else [])])]
    if question is None:
        both = [set(here.loc[here["arm"] == name, "question"].astype(str)) for name in (base, arm)]
        shared = both[0] & both[1]
        question = base if base in shared or len(shared) != 1 else shared.pop()
    return here[here["question"] == question]


def pair_rounds(ran: pd.DataFrame, timed: pd.DataFrame, base: str, arm: str) -> pd.DataFrame:
    """One row per round that both arms finished: round, base_ns, arm_ns, inputs_base, inputs_arm.

    A run's time is the median of its samples.  Raises DataError for an arm twice in a round, or a time
    that is not finite and above 0.
    """
    per_run = timed.groupby("run")["time_ns"].median().rename("ns")
    columns = ran[["run", "round", "arm", "inputs", "knobs"]].astype({"arm": str})
    known = columns.merge(per_run, left_on="run", right_index=True)
    bad = known[~((known["ns"] > 0) & (known["ns"] < np.inf))]
    if len(bad):
        first = bad.iloc[0]
        raise DataError(
            f"run {first['run']} (arm {first['arm']}, round {first['round']}) took {first['ns']:g} ns: "
            "allowed is a finite time above 0; measure again"
        )
    twice = known[known.duplicated(["round", "arm"])]
    if len(twice):
        first = twice.iloc[0]
        raise DataError(
            f"arm {first['arm']} ran more than once in round {first['round']} of one point: "
            "narrow the runs to one set of knobs and one recording"
        )
    sides = [
        known.loc[known["arm"] == name, ["round", "ns", "inputs"]].rename(
            columns={"ns": f"{side}_ns", "inputs": f"inputs_{side}"}
        )
        for side, name in (("base", base), ("arm", arm))
    ]
    return sides[0].merge(sides[1], on="round").sort_values("round", ignore_index=True)
