"""What one run left, and finished runs that wait to be written together.

In: status, reason, build, checks and tables of runs.  Out: tables with their `run` column, in a partial recording.
Misuse: a waiting run is not kept yet: a process that dies takes it along, and it is measured again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from attribution.declare import Check
from attribution.measure.machine import Table
from attribution.measure.runs import run_facts
from attribution.plan import Plan, PlannedRun

if TYPE_CHECKING:
    import pandas as pd


class Kept(Protocol):
    """Where finished runs are kept: a partial recording, or a point's part of one."""

    def done(self) -> set[int]:
        """Numbers of the runs that are finished."""

    def add(self, runs: Sequence[int], tables: Mapping[str, pd.DataFrame]) -> None:
        """Keep the tables (with their `run` column) of runs that were measured together."""

    def table(self, name: str) -> pd.DataFrame:
        """What there is of one table so far."""


@dataclass
class Outcome:
    """What one run left."""

    begin_ns: int
    status: str = "ok"
    reason: str = ""
    build: str = ""
    checks: list[tuple[str, Check]] = field(default_factory=list)
    """When each was made, before or after timing."""
    tables: dict[str, Table] = field(default_factory=dict)

    def fail(self, reason: str) -> None:
        self.status, self.reason = "failed", reason

    def add_counters(self, more: Sequence[Mapping[str, Any]]) -> None:
        """More rows of table `counters`."""
        there = self.tables.get("counters", [])
        assert isinstance(there, list) or not more, "a machine with ceilings gives its counters as rows"
        if isinstance(there, list):
            self.tables["counters"] = [*there, *map(dict, more)]

    def rows(self, plan: Plan, run: PlannedRun, inputs: str) -> dict[str, Table]:
        """The rows of this run in every table, with their `run` column; `inputs` is the hash of its inputs."""
        row = {
            **run_facts(plan, run),
            "build": self.build,
            "inputs": inputs,
            "status": self.status,
            "reason": self.reason,
            "begin_ns": self.begin_ns,
        }
        looked = [{"when": w, "check": c.name, "passed": c.passed, "detail": c.detail} for w, c in self.checks]
        tables: dict[str, Table] = {"runs": [row], **self.tables, "checks": looked}
        return {name: _numbered(table, run.run) for name, table in tables.items() if len(table)}


def _numbered(table: Table, run: int) -> Table:
    return [{**row, "run": run} for row in table] if isinstance(table, list) else table.assign(run=run)


def first_failed(checks: Sequence[Check], what: str) -> str:
    """`what` with the first check that did not hold, '' when all did."""
    bad = [f"{c.name}: {c.detail}" for c in checks if not c.passed]
    return f"{what}: {bad[0]}" if bad else ""


class Waiting:
    """Finished runs, written together every `keep_s`: writing takes longer than a short round."""

    def __init__(self, kept: Kept, keep_s: float) -> None:
        self.kept, self.keep_s, self._written_s = kept, keep_s, time.monotonic()
        self._runs: list[tuple[int, dict[str, Table]]] = []

    def take(self, run: int, tables: dict[str, Table]) -> None:
        self._runs.append((run, tables))

    def write_when_due(self) -> None:
        if time.monotonic() - self._written_s >= self.keep_s:
            self.write()

    def write(self) -> None:
        """Write what waits, in one piece."""
        import pandas as pd

        if self._runs:
            parts: dict[str, list[Table]] = {}
            for name, table in (item for _, tables in self._runs for item in tables.items()):
                parts.setdefault(name, []).append(table)
            whole = {}
            for name, tables in parts.items():
                # One frame for all rows: a frame for each run takes longer than a short run.
                rows = [row for table in tables if isinstance(table, list) for row in table]
                frames = [table for table in tables if not isinstance(table, list)]
                whole[name] = pd.concat([*([pd.DataFrame(rows)] if rows else []), *frames], ignore_index=True)
            self.kept.add([run for run, _ in self._runs], whole)
        self._runs, self._written_s = [], time.monotonic()
