"""Where a report's numbers come from: machine, instruments, arms, launches, checks, and the hash of every table.

In: an opened recording.  Out: a `Section`.
Misuse: a hash says that nothing was changed after the recording was written, not that what was measured is right.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attribution.recording import Recording
from attribution.show.cells import text
from attribution.show.report_blocks import Block, Column, Section, Table, Text
from attribution.tables import records

LEAD = "What was measured, on what, with which instruments, and how to see that it was not changed since."
SCOPES = ("event", "graph", "cupti", "ncu", "trace", "host-virtual")
ROWS = 200
"""Most rows of a table of launches or files: the recording has all."""


def provenance_section(recording: Recording) -> Section:
    """Machine, scopes, arms, profiled launches, outputs and tables."""
    facts = recording.manifest
    machine = [(k, text(v)) for k, v in facts["machine"].items() if not isinstance(v, (Mapping, list))]
    blocks: list[Block] = [
        _pairs("Machine", machine),
        _scopes(recording),
        _arms(facts["plan"]["questions"]),
        *_lost(facts.get("measuring", {})),
        *_launches(recording),
        _checks(recording),
        tables_block(recording),
    ]
    return Section("provenance", "Provenance", LEAD, tuple(blocks))


def _pairs(title: str, rows: list[tuple[str, str]]) -> Table:
    return Table(title, (Column("what"), Column("value")), tuple(rows))


def _scopes(recording: Recording) -> Table:
    times, counters = recording.table("times"), recording.table("counters")
    runs = {
        s: set(times.loc[times["scope"] == s, "run"]) | set(counters.loc[counters["scope"] == s, "run"]) for s in SCOPES
    }
    skipped = {s["scope"]: s["reason"] for s in recording.manifest.get("measuring", {}).get("skipped", [])}
    host = recording.manifest["machine"]["kind"] == "host"
    shown = [s for s in SCOPES if runs[s] or (s == "host-virtual") == host]
    rows = tuple(
        (s, f"{len(runs[s])} runs" if runs[s] else "not recorded", skipped.get(s, "")) for s in shown
    )  # fmt: skip
    note = "Values of two scopes are never subtracted, divided or ordered."
    return Table("Scopes", (Column("scope", "code"), Column("recorded"), Column("why not", "prose")), rows, note)


def _arms(questions: list[Mapping[str, Any]]) -> Table:
    rows = []
    for question in questions:
        base = question["arms"][0]
        for arm in question["arms"]:
            values, own = ({**a["flags"], **a["knobs"]} for a in (base, arm))
            changed = own if arm is base else {k: v for k, v in own.items() if values.get(k) != v}
            rows.append(
                (question["base"], arm["name"], ", ".join(f"{k} = {v}" for k, v in changed.items()) or "as the base")
            )
    columns = (
        Column("base", "code"),
        Column("arm", "code"),
        Column("flags and knobs; of other arms what differs", "prose"),
    )
    return Table("Arms", columns, tuple(rows))


def _lost(measuring: Mapping[str, Any]) -> list[Block]:
    lost = [Text(f"Lost: {arm}: {reason}", missing=True) for _, arm, reason in measuring.get("lost", [])]
    return [*lost, *([Text(str(measuring["finished"]))] if measuring.get("finished") else [])]


def _launches(recording: Recording) -> list[Block]:
    """Kernels that a profiler counted, by the names that it gave them."""
    counters = recording.table("counters")
    seen = counters.loc[counters["kernel_name"] != "", ["scope", "stage", "kernel_name"]].drop_duplicates()
    if seen.empty:
        return []
    rows = tuple(tuple(map(str, r.values())) for r in records(seen.head(ROWS)))
    columns = (Column("scope", "code"), Column("stage"), Column("kernel", "code"))
    return [Table("Launches that were profiled or looked at", columns, rows, _cut(len(seen)))]


def _checks(recording: Recording) -> Block:
    checks = recording.table("checks")
    if checks.empty:
        return Text("No output was checked in this recording.", missing=True)
    groups = checks.astype({"when": str, "check": str}).groupby(["when", "check"], sort=False)["passed"]
    rows = tuple((str(when), str(check), f"{int(p.sum())} of {len(p)}") for (when, check), p in groups)
    return Table("Outputs", (Column("when"), Column("check"), Column("passed", "number")), rows)


def tables_block(recording: Recording) -> Table:
    """Every table with its rows and its hash."""
    facts = recording.manifest
    rows = [(name, str(t["rows"]), str(t["sha256"])) for name, t in facts["tables"].items()]
    tool = {k: facts[k] for k in ("attribution", "schema", "protocol") if k in facts}
    note = "Verified when this report was made. Written by " + json.dumps(tool).strip("{}").replace('"', "") + "."
    return Table(
        "Tables", (Column("table", "code"), Column("rows", "number"), Column("sha256", "code")), tuple(rows), note
    )


def _cut(count: int) -> str:
    return f"The first {ROWS} of {count}." if count > ROWS else ""
