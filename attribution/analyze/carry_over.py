"""Whether the place of an arm in its round, or the arm before it, shows in its time.

In: an opened recording.  Out: a frame, one row a scope, stage and level: position 0, 1, ..., and every predecessor.
A Williams design makes these effects fall on all arms alike; here they are estimated, so that one sees what it saved.
Misuse: an effect of the order is no effect of an arm, and takes nothing from a contrast of the same rounds.
"""

from __future__ import annotations

import pandas as pd

from attribution.analyze import stats
from attribution.analyze.pairing import scoped
from attribution.measured import TRACED
from attribution.order import imbalance
from attribution.recording import Recording

FIRST = "(first)"
BESIDE = ["ncu", "cupti", "trace"]
"""Scopes whose runs belong to no round, or are no times."""


def carry_over(recording: Recording) -> pd.DataFrame:
    """scope, stage, by (position or predecessor), level, ratio, low, high (95 %), p_value; empty where the design cannot tell.

    The p-value is of all levels of one `by` together.
    """
    runs, times = recording.table("runs"), recording.table("times")
    names = runs["arm"].astype(str)
    mine = runs[(runs["status"] == "ok") & ~names.str.endswith(TRACED)].astype({"arm": str, "predecessor": str})
    rows = []
    timed = _timed(times[times["run"].isin(mine["run"])])
    for (scope, stage), part in timed.groupby(["scope_label", "stage"], observed=True):
        per_run = part.groupby("run")["time_ns"].median()
        frame = mine.set_index("run").join(per_run, how="inner").reset_index()
        for by in ("position", "predecessor"):
            found = stats.order_effects(frame.assign(predecessor=frame["predecessor"].replace("", FIRST)), by)
            rows += [{"scope": scope, "stage": stage, "by": by, **row} for row in found.to_dict("records")]
    return pd.DataFrame(rows, columns=["scope", "stage", "by", "level", "ratio", "low", "high", "p_value"])


def _timed(times: pd.DataFrame) -> pd.DataFrame:
    """Times of rounds in operator and main, with `scope_label`: scopes whose runs belong to no round are left out."""
    kept = times[times["stage"].isin(["operator", "main"]) & ~times["scope"].isin(BESIDE)]
    parts = [scoped(part, None) for _, part in kept.groupby(["scope", "cache", "clock"], observed=True)]
    return pd.concat(parts) if parts else kept.assign(scope_label="")


def unbalanced(recording: Recording) -> list[str]:
    """Per question what is unbalanced about its finished rounds, in words: too few for a whole design, or runs that are missing.

    What the order does then lies on some arms more than on others.
    """
    runs, times = recording.table("runs"), recording.table("times")
    timed = set(times.loc[~times["scope"].isin(BESIDE), "run"])
    mine = runs[(runs["status"] == "ok") & runs["run"].isin(timed)].astype({"arm": str, "question": str})
    out = []
    for question, here in mine[~mine["arm"].str.endswith(TRACED)].groupby("question", sort=False):
        arms = {arm: number for number, arm in enumerate(sorted(set(here["arm"])))}
        rounds = here.sort_values("position").groupby(["shape", "distribution", "round"], observed=True)["arm"]
        if text := imbalance([[arms[arm] for arm in order] for _, order in rounds]):
            out.append(f"the order of {question} is unbalanced: {text}")
    return out
