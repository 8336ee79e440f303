"""Whether the tables of a measured recording can be true: names that were planned, times that can be, nothing twice.

In: the frames and the manifest, which was checked before.  Out: nothing, or a DataError naming the row.
Misuse: a run that failed or was skipped has no times, and that is no fault.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attribution.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

LEAST_NS, MOST_NS = 1e-3, 1e15
"""No timer resolves a picosecond, and no run takes eleven days; beyond, ratios are not numbers that one can print."""

TRACED = "+trace"
"""Ends the name of an arm whose build was traced; the plan has the arm without it."""

STATUSES = ("ok", "failed", "skipped")

PLACE = ["question", "arm", "shape", "distribution", "round"]
"""Where a run belongs; that of an arm under a profiler has the place of the timed one, and other scopes."""
ONCE: Mapping[str, list[str]] = {
    "counters": ["run", "scope", "stage", "kernel_name", "launch", "metric", "instance", "pass_group", "source"],
    "capacity": ["run", "limit"],
    "lanes": ["run", "cta", "role"],
}
"""Table -> columns that no two of its rows may agree in: what stands there twice would count twice."""


def check_runs(runs: pd.DataFrame, manifest: Mapping[str, Any]) -> None:
    """Every run has a number of its own, was planned, and its flags, knobs and shape can be read.  Raises DataError."""
    if runs.empty:
        raise DataError("table runs is empty: a measured recording without runs answers nothing; measure again")
    twice = runs["run"][runs["run"].duplicated() | (runs["run"] < 0)]
    if len(twice):
        raise DataError(f"table runs: run {twice.iloc[0]} is negative or there twice: measure again")
    planned = {(q["base"], a["name"]) for q in manifest["plan"]["questions"] for a in q["arms"]}
    columns = ["question", "arm", "kernel", "status", "flags", "knobs", "shape"]
    distinct = runs[["run", *columns]].drop_duplicates(columns)
    for run, *values in distinct.astype(dict.fromkeys(columns, str)).to_numpy().tolist():
        question, arm, kernel, status, flags, knobs, shape = values
        here = f"table runs, run {run}"
        if (question, arm.removesuffix(TRACED)) not in planned:
            raise DataError(f"{here}: arm {arm!r} of question {question!r} is not in the manifest's plan")
        if kernel not in manifest["kernels"]:
            raise DataError(f"{here}: kernel {kernel!r} is not in the manifest: {', '.join(manifest['kernels'])}")
        if status not in STATUSES:
            raise DataError(f"{here}: status {status!r}; allowed are {', '.join(STATUSES)}")
        _json_object(flags, f"{here}: flags")
        _check_sms(_json_object(knobs, f"{here}: knobs"), manifest["machine"], here)
        first_axis(shape, here)


def _json_object(text: str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DataError(f"{what} is {text[:80]!r}; allowed is a JSON object: measure again")
    return value


def _check_sms(knobs: Mapping[str, Any], machine: Mapping[str, Any], here: str) -> None:
    """The reference machine has the SMs that a run asks for, and its manifest says how many those were."""
    if machine["kind"] != "host":
        return
    stated = machine["sms"] if isinstance(machine["sms"], list) else [machine["sms"]]
    if knobs.get("sms") not in stated:
        raise DataError(
            f"{here}: knob sms is {knobs.get('sms')} and the manifest's machine.sms is {machine['sms']}: measure again"
        )


def first_axis(shape: str, here: str) -> int:
    """144 of `q=144,n=8192`: the rows of output of one run.  Raises DataError."""
    value = shape.split(",")[0].partition("=")[2]
    if not (value.isascii() and value.isdigit() and len(value) < 19):
        raise DataError(f"{here}: shape is {shape[:80]!r}; allowed is like q=128,n=8192")
    return int(value)


def check_times(times: pd.DataFrame, runs: pd.DataFrame) -> None:
    """Every time is finite, above 0, of a run that there is, and there once.  Raises DataError."""
    ns = times["time_ns"]
    bad = times[~((ns >= LEAST_NS) & (ns <= MOST_NS))]
    if len(bad):
        first = bad.iloc[0]
        raise DataError(
            f"table times: run {first['run']}, stage {first['stage']}, scope {first['scope']}, sample {first['sample']}: "
            f"time_ns is {first['time_ns']:g} ({len(bad)} such rows); allowed is {LEAST_NS:g} to {MOST_NS:g}: measure again"
        )
    lost = times[~times["run"].isin(runs["run"])]
    if len(lost):
        raise DataError(
            f"table times: {len(lost)} rows are of no run in table runs, the first of run {lost['run'].iloc[0]}"
        )
    placed = times.merge(runs[["run", *PLACE]], on="run")
    check_once("times", placed, [*PLACE, "scope", "cache", "clock", "stage", "sample"])


def check_once(name: str, frame: pd.DataFrame, key: list[str]) -> None:
    """No two rows of table `name` agree in all of `key`.  Raises DataError naming what is there twice."""
    twice = frame[frame.duplicated(key)]
    if len(twice):
        first = ", ".join(f"{column} {twice[column].iloc[0]}" for column in key)
        raise DataError(
            f"table {name}: {first} is there twice ({len(twice)} such rows), and would count twice: measure again"
        )
