"""Runs beside the timed ones: scopes ncu and cupti, each in a worker of its own, as rows of the same recording.

In: the order that the timed worker had, what it left.  Out: runs in the partial recording; a `Skip` for what went wrong.
The times that were measured are never lost to a profiler that failed: the reason is recorded.
Misuse: their round is the turn of the profiler and their position that of the arm's first run: they belong to no pair.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribution.errors import AttrError, MeasureError
from attribution.measure import cupti, ncu, report
from attribution.measure.runs import run_facts
from attribution.measure.scopes import Skip
from attribution.measure.worker import LOG, MACHINE, Order
from attribution.partial import Partial
from attribution.plan import Plan, PlannedRun

if TYPE_CHECKING:
    import pandas as pd

    from attribution.measure.watch import Ended

Start = Callable[[Order, Sequence[str]], "Ended"]
"""Runs a worker of this order under this command to its end."""


@dataclass(frozen=True)
class Beside:
    """The recording under way."""

    plan: Plan
    path: Path
    partial: Partial
    runs: Mapping[int, PlannedRun]
    command: Sequence[str]

    def add(self, order: Order, scopes: Sequence[str], start: Start) -> list[Skip]:
        """Measure what there is of cupti and ncu among `scopes`."""
        skips = []
        for scope, make in (("cupti", self._cupti), ("ncu", self._ncu)):
            if scope not in scopes:
                continue
            try:
                make(replace(order, mode=scope), start)
            except (AttrError, OSError, ValueError, KeyError) as error:
                skips.append(Skip(scope, f"{error}{self._kept() if scope == 'ncu' else ''}"))
        return skips

    def _next(self) -> int:
        return max([*self.runs, *self.partial.done()]) + 1

    def _cupti(self, order: Order, start: Start) -> None:
        import pandas as pd

        ended = start(order, self.command)
        if ended.kind != "finished":
            raise MeasureError(f"under torch.profiler the worker ended: {ended.reason}")
        for arm in self._json(cupti.RESULT):
            number = self._next()
            columns = ["scope", "stage", "sample", "time_ns", "clock_mhz"]
            times = pd.DataFrame(arm["rows"], columns=columns).assign(
                cache="warm", clock="as-found", flags="clock-unknown"
            )
            looked = [{"when": "after", "check": n, "passed": p, "detail": d} for n, p, d in arm["checks"]]
            tables = {"times": times, "checks": pd.DataFrame(looked)}
            self._keep(arm, number, {k: frame.assign(run=number) for k, frame in tables.items() if len(frame)})

    def _ncu(self, order: Order, start: Start) -> None:
        file = self.partial.folder / ncu.REPORT
        metrics = self._json(MACHINE).get("metrics", {})
        ended = start(order, ncu.command(self.command, file, list(metrics.values())))
        if ended.kind != "finished":
            raise MeasureError(f"under ncu the worker ended: {ended.reason}")
        if not file.is_file():
            raise MeasureError(ncu.explain((self.partial.folder / LOG).read_text(encoding="utf-8", errors="replace")))
        for arm, number, tables in report.frames(self._json(ncu.LAUNCHES), report.read(file), metrics, self._next()):
            self._keep(arm, number, tables)

    def _json(self, name: str) -> Any:
        return json.loads((self.partial.folder / name).read_text(encoding="utf-8"))

    def _keep(self, arm: Mapping[str, Any], number: int, tables: Mapping[str, pd.DataFrame]) -> None:
        import pandas as pd

        like = next(r for r in self.runs.values() if (r.question, r.arm.name) == (arm["question"], arm["arm"]))
        bad = [f"{name}: {detail}" for name, passed, detail in arm["checks"] if not passed]
        row = {
            **run_facts(self.plan, like),
            "run": number,
            "round": arm.get("round", 0),
            "predecessor": "",
            "build": arm["build"],
        }
        row |= {"inputs": arm["inputs"], "status": "failed" if bad else "ok", "begin_ns": time.time_ns()}
        row["reason"] = f"wrong output of the profiled run: {bad[0]}" if bad else ""
        self.partial.add([number], {"runs": pd.DataFrame([row]), **tables})

    def _kept(self) -> str:
        """Keep a report that could not be read, and say where."""
        file = self.partial.folder / ncu.REPORT
        if not file.is_file():
            return ""
        kept = self.path.with_name(f"{self.path.name}.ncu-rep")
        shutil.copyfile(file, kept)
        return f"; the report is kept as {kept.name}: `attr ingest` reads it"
