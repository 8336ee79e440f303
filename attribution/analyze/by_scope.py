"""One arm under every instrument that measured it: what each includes, and what it reads.

In: an opened recording.  Out: a frame, one row a scope and stage; the difference of two scopes, which is refused.
Misuse: rows of two scopes describe the same kernel and are no two measurements of one quantity: nothing here subtracts them.
"""

from __future__ import annotations

import pandas as pd

from attribution.errors import InputError
from attribution.measure.scopes import INSTRUMENTS, Scope, Time
from attribution.measured import TRACED
from attribution.recording import Recording

STAGES = ("operator", "main")


def by_scope(recording: Recording, arm: str) -> pd.DataFrame:
    """scope, stage, time_ns (median), low_ns and high_ns (5 % and 95 % of the samples), samples, runs, includes.

    Scope trace is that of the arm's traced build.  Raises InputError for an arm that was not measured.
    """
    runs, times = recording.table("runs"), recording.table("times")
    names = runs["arm"].astype(str)
    good = runs["status"] == "ok"
    if not (good & (names == arm)).any():
        raise InputError(f"arm {arm!r} has no finished run; there are: {', '.join(sorted(set(names[good]))) or 'none'}")
    plain, traced = (times["run"].isin(runs.loc[good & (names == name), "run"]) for name in (arm, arm + TRACED))
    mine = times[(plain | (traced & (times["scope"] == "trace"))) & times["stage"].isin(STAGES)]
    keys = ["scope", "cache", "clock", "stage"]
    rows = []
    for key, part in mine.astype(dict.fromkeys(keys, str)).groupby(keys):
        instrument, cache, clock, stage = map(str, key)
        rows.append(
            {
                "scope": str(Scope(instrument, cache, clock)),
                "stage": stage,
                "time_ns": float(part["time_ns"].median()),
                "low_ns": float(part["time_ns"].quantile(0.05)),
                "high_ns": float(part["time_ns"].quantile(0.95)),
                "samples": len(part),
                "runs": int(part["run"].nunique()),
                "includes": INSTRUMENTS[instrument],
            }
        )
    order = {name: i for i, name in enumerate(INSTRUMENTS)}
    rows.sort(key=lambda r: (STAGES.index(str(r["stage"])), order[str(r["scope"]).split("/")[0]], str(r["scope"])))
    return pd.DataFrame(rows)


def difference(table: pd.DataFrame, first: str, second: str, stage: str) -> Time:
    """What `first` - `second` would be.  Raises DataError for two scopes, InputError for one that is not there."""
    one, two = (_time(table, name, stage) for name in (first, second))
    return one - two


def _time(table: pd.DataFrame, scope: str, stage: str) -> Time:
    here = table[(table["stage"] == stage) & ((table["scope"] == scope) | table["scope"].str.startswith(f"{scope}/"))]
    if len(here) != 1:
        known = ", ".join(table.loc[table["stage"] == stage, "scope"]) or "none"
        raise InputError(f"scope {scope!r} of stage {stage} is {len(here)} rows; there are: {known}")
    return Time(float(here["time_ns"].iloc[0]), Scope(*str(here["scope"].iloc[0]).split("/")), stage)
