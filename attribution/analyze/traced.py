"""The trace of one arm of a recording, with everything that is computed from it.

In: an opened recording and an arm's name.  Out: a `Trace`: spans, per-SM table, per-role table of its first traced run.
Misuse: durations of a traced build locate; they are not published as times unless the cost of tracing was measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from attribution.analyze import believable, overlap, spans, tails
from attribution.analyze.active import processing
from attribution.analyze.in_part import in_part
from attribution.declare import Event, nearest
from attribution.errors import DataError, InputError
from attribution.measured import TRACED, first_axis
from attribution.recording import Recording
from attribution.tables import records

HOST_SCOPE = "host-virtual"
"""The reference machine traces the very run that it times; on a GPU the traced build is timed by its own stamps."""


@dataclass(frozen=True)
class Trace:
    """One traced run: `spans`, `per_sm` and `roles` are the frames of `analyze.spans`, `.tails` and `.overlap`.

    left_out: the sentence that says which CTAs were not traced, and `per_sm` is empty then; "" where all were.
    """

    arm: str
    run: int
    sms: int
    spans: pd.DataFrame
    per_sm: pd.DataFrame
    roles: pd.DataFrame
    unpaired: pd.DataFrame
    left_out: str = ""

    def sm_rows(self) -> list[dict[str, Any]]:
        """One mapping an SM."""
        return records(self.per_sm.drop(columns="run"))

    def role_rows(self) -> list[dict[str, Any]]:
        """One mapping a role."""
        return records(self.roles.drop(columns="run").astype({"role": str}))


def events_of(recording: Recording, kernel: str) -> tuple[list[str], list[Event]]:
    """Roles and events in the order that the tables index them."""
    facts: Mapping[str, Any] = recording.manifest["kernels"][kernel]
    return list(facts["roles"]), [Event(**e) for e in facts["events"]]


def traced(recording: Recording, arm: str | None = None, run: int | None = None) -> Trace | None:
    """The first traced run of `arm` (the first base when None), or the run of that number; None when nothing was traced.

    Raises InputError for an arm or run that is not there, DataError for a trace that cannot be trusted.
    """
    runs, events = recording.table("runs"), recording.table("events")
    check_traces(recording)
    if events.empty and arm is None and run is None:
        return None
    with_trace = runs[runs["run"].isin(events["run"].unique())].astype({"arm": str, "knobs": str, "kernel": str})
    if run is not None:
        chosen = with_trace[with_trace["run"] == run]
        if chosen.empty:
            raise InputError(f"run {run} of {recording.path.name} has no trace; runs with one: {_some(with_trace)}")
        if arm is not None and (of := chosen["arm"].iloc[0]).removesuffix(TRACED) != arm.removesuffix(TRACED):
            raise InputError(f"run {run} of {recording.path.name} is of arm {of}, not {arm}: leave --arm or --run out")
    else:
        name = arm or recording.manifest["plan"]["questions"][0]["base"]
        # On a GPU the traced build of an arm is an arm of its own.
        chosen = with_trace[with_trace["arm"].isin([name, name + TRACED])]
        if chosen.empty:
            known = sorted(set(with_trace["arm"]))
            if arm is None:
                return None
            raise InputError(
                f"arm {name!r} of {recording.path.name} has no trace{nearest(name, known)}; there are: {', '.join(known) or 'none'}"
            )
    row = chosen.iloc[0]
    number = int(row["run"])
    sms = _sms(recording, json.loads(row["knobs"]))
    roles, declared = events_of(recording, row["kernel"])
    mine = {n: t[t["run"] == number] for n, t in (("events", events), ("lanes", recording.table("lanes")))}
    left_out = _left_out(recording, number)
    rows = recording.table("rows")
    rows = rows[rows["run"] == number]
    spans.check_complete(mine["lanes"], roles)
    found = spans.spans(mine["events"], mine["lanes"], roles, declared)
    active = processing(found)
    per_sm = tails.per_sm(found, rows, sms, active)
    return Trace(
        row["arm"],
        number,
        sms,
        found,
        per_sm.iloc[:0] if left_out else per_sm,
        overlap.roles(found, active),
        spans.unpaired(mine["events"], roles, declared),
        left_out,
    )


def _left_out(recording: Recording, run: int) -> str:
    found = in_part(recording)
    if run not in found.index:
        return ""
    return (
        f"Only {found['traced'][run]} of {found['ctas'][run]} CTAs were traced: all here is of these; which SM finishes last "
        "and how many rows one has is not known."
    )


def traced_runs(recording: Recording, question: str, arm: str) -> pd.DataFrame:
    """Rows of `runs` that are ok and have events: of `arm`, or of its traced build, which on a GPU is an arm of its own."""
    runs = recording.table("runs")
    mine = runs[(runs["question"] == question) & runs["arm"].isin([arm, arm + TRACED]) & (runs["status"] == "ok")]
    return mine[mine["run"].isin(recording.table("events")["run"].unique())]


def check_traces(recording: Recording) -> None:
    """Every traced run is whole and agrees with its rows and its time.  Raises DataError; records that a full lane lost pass."""
    tables = {name: recording.table(name) for name in ("events", "lanes", "rows")}
    if all(table.empty for table in tables.values()):
        return
    runs = recording.table("runs")
    for name, table in tables.items():
        unknown = table["run"][~table["run"].isin(runs["run"])]
        if len(unknown):
            raise DataError(f"table {name}: run {unknown.iloc[0]} is not in table runs; measure again")
    host = recording.manifest["machine"]["kind"] == "host"
    known = runs.astype({"kernel": str, "knobs": str})
    for (kernel, knobs), here in known.groupby(["kernel", "knobs"]):
        # Most recordings have one kernel and one set of knobs: nothing is copied then.
        whole = len(here) == len(runs)
        mine = {n: t if whole else t[t["run"].isin(here["run"])] for n, t in tables.items()}
        roles, declared = events_of(recording, str(kernel))
        believable.check_codes(mine["lanes"], "role", len(roles))
        for column, count in (("role", len(roles)), ("event", len(declared)), ("edge", 2)):
            believable.check_codes(mine["events"], column, count)
        # Older recordings of a GPU keep the events of their first round; of the others the lanes and rows stay.
        kept = mine["lanes"] if host else mine["lanes"][mine["lanes"]["run"].isin(mine["events"]["run"].unique())]
        believable.check_records(mine["events"], kept, roles)
        believable.check_placement(mine["lanes"], mine["rows"], _sms(recording, json.loads(str(knobs))))
        shapes = zip(here["run"], here["shape"].astype(str), strict=True)
        due = {int(run): first_axis(shape, f"table runs, run {run}") for run, shape in shapes} if host else {}
        believable.check_rows(mine["rows"], mine["lanes"], due)
    believable.check_ends(tables["events"], _stage_ns(recording, host), exact=host)


def _stage_ns(recording: Recording, host: bool) -> pd.Series:
    """Run -> ns from the start of the traced stage to its end, by the scope that the trace belongs to."""
    times = recording.table("times")
    mine = times[(times["scope"] == (HOST_SCOPE if host else "trace")) & (times["stage"] == "main")]
    return mine.groupby("run")["time_ns"].max()


def _sms(recording: Recording, knobs: Mapping[str, int]) -> int:
    """The device's SMs: on the reference machine the knob, on a GPU the machine's own number."""
    machine = recording.manifest["machine"]
    return int(knobs["sms"] if machine["kind"] == "host" else machine["sms"])


def _some(runs: pd.DataFrame) -> str:
    numbers = runs["run"].tolist()
    return ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "") if numbers else "none"
