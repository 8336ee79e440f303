"""Runs beside the timed ones: scopes ncu and cupti, each in a worker of its own, as rows of the same recording.

In: the points, what the timed worker left.  Out: runs in the partial recording; a `Skip` for what went wrong.
The times that were measured are never lost to a profiler that failed: the reason is recorded.
Misuse: their round is the turn of the profiler and their position that of the arm's first run: they belong to no pair.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attribution.errors import AttrError, MeasureError
from attribution.measure import cold, cupti, ncu, reading
from attribution.measure.jobfile import Key, Options
from attribution.measure.points import Point, all_runs
from attribution.measure.process import Ended
from attribution.measure.runs import run_facts
from attribution.measure.scopes import Skip
from attribution.measure.worker import LOG, MACHINE, PROFILED
from attribution.partial import Partial

if TYPE_CHECKING:
    import pandas as pd

Start = Callable[[str, Sequence[str]], Ended]
"""Runs a worker in this mode under this command to its end."""


@dataclass(frozen=True)
class Beside:
    """The recording under way: its points, and the arms that were refused."""

    points: Sequence[Point]
    partial: Partial
    command: Sequence[str]
    options: Options
    refused: Collection[Key] = ()

    def add(self, start: Start) -> list[Skip]:
        """Measure what there is of cupti and ncu among the scopes."""
        skips = []
        for scope, make in (("cupti", self._cupti), ("ncu", self._ncu)):
            if scope not in self.options.scopes:
                continue
            try:
                make(start)
            except (AttrError, OSError, ValueError, KeyError) as error:
                reason = f"{error}{self._kept() if scope == 'ncu' else ''}"
                skips.append(Skip(scope, reason))
                self._failed(f"scope {scope}: {reason}")
        return skips

    def _failed(self, reason: str) -> None:
        """A failed row for each arm that the profiler was to run."""
        there = {
            (point.number, question.base, arm.name)
            for point in self.points
            for question in point.plan.questions
            for arm in question.arms
            if self.options.profiles(arm.name)
        }
        for point, question, arm in sorted(there - set(self.refused)):
            facts = {"point": point, "question": question, "arm": arm, "build": "", "inputs": "", "checks": []}
            self._keep(facts, self._next(), {}, reason)

    def _next(self) -> int:
        return max([*(number for number, _, _ in all_runs(self.points)), *self.partial.done()]) + 1

    def _cupti(self, start: Start) -> None:
        import pandas as pd

        ended = start("cupti", self.command)
        if ended.kind != "finished":
            raise MeasureError(f"under torch.profiler the worker ended: {ended.reason}")
        for arm in self._json(PROFILED):
            number = self._next()
            looked = [{"when": "after", "check": n, "passed": p, "detail": d} for n, p, d in arm["checks"]]
            tables = {**cupti.tables(arm["rows"], self.options.cache), "checks": pd.DataFrame(looked)}
            self._keep(arm, number, {k: frame.assign(run=number) for k, frame in tables.items() if len(frame)})

    def _ncu(self, start: Start) -> None:
        file = self.partial.folder / ncu.REPORT
        metrics = self._json(MACHINE).get("metrics", {})
        cache = self.options.cache
        if cache == "cold":
            metrics = {meaning: metrics[meaning] for meaning in ncu.COLD if meaning in metrics}
        ended = start("ncu", ncu.command(self.command, file, list(metrics.values())))
        if ended.kind != "finished":
            raise MeasureError(f"under ncu the worker ended: {ended.reason}")
        if not file.is_file():
            raise MeasureError(ncu.explain((self.partial.folder / LOG).read_text(encoding="utf-8", errors="replace")))
        for arm, number, tables in reading.apart(file, self._json(PROFILED), metrics, self._next(), cache):
            reason = ""
            if cache == "cold" and arm["least_bytes"]:
                reason = _not_cold(arm, tables)
            self._keep(arm, number, tables, reason)

    def _json(self, name: str) -> Any:
        return json.loads((self.partial.folder / name).read_text(encoding="utf-8"))

    def _keep(self, arm: Mapping[str, Any], number: int, tables: Mapping[str, pd.DataFrame], reason: str = "") -> None:
        import pandas as pd

        point = self.points[arm["point"]]
        like = next(r for r in point.runs.values() if (r.question, r.arm.name) == (arm["question"], arm["arm"]))
        bad = [
            f"wrong output of the profiled run: {name}: {detail}"
            for name, passed, detail in arm["checks"]
            if not passed
        ]
        reason = reason or next(iter(bad), "")
        row = {**run_facts(point.plan, like), "run": number, "round": arm.get("round", 0), "predecessor": ""}
        row |= {
            "build": arm["build"],
            "inputs": arm["inputs"],
            "status": "failed" if reason else "ok",
            "reason": reason,
        }
        self.partial.add([number], {"runs": pd.DataFrame([row]).assign(begin_ns=time.time_ns()), **tables})

    def _kept(self) -> str:
        """Keep a report that could not be read, and say where."""
        file = self.partial.folder / ncu.REPORT
        if not file.is_file():
            return ""
        kept = self.partial.path.with_name(f"{self.partial.path.name}.ncu-rep")
        shutil.copyfile(file, kept)
        return f"; the report is kept as {kept.name}: `attr ingest` reads it"


def _not_cold(arm: Mapping[str, Any], tables: dict[str, pd.DataFrame]) -> str:
    """Add to the tables whether the counters agree that this was cold; the reason when they do not."""
    import pandas as pd

    counters = tables["counters"].groupby("metric")["value"].sum(min_count=1)
    read, sectors, hits = (
        float(counters.get(n, math.nan)) for n in ("dram_read_bytes", "l2_sectors", "l2_sectors_hit")
    )
    passed, seen = cold.check_missed(read, sectors, hits, arm["least_bytes"])
    row = {"run": tables["counters"]["run"].iloc[0], "when": "after", "check": "cold", "passed": passed, "detail": seen}
    tables["checks"] = pd.concat([tables.get("checks"), pd.DataFrame([row])], ignore_index=True)
    return "" if passed else f"this was not cold: {seen}"
