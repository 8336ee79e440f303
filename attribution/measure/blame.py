"""Whom a lost worker is laid at the door of: the arm that ends another worker all by itself.

In: how a worker ended, the points, and a way to run one arm alone in a fresh worker.  Out: the arm to leave out, or nobody.
A context is lost for whoever waits next: an arm that was only being set up, or one whose memory another arm wrote over.  So
the arm at whose turn a worker ended is run alone first, then those measured with it, nearest before it first.
Misuse: an arm that survives alone is not cleared of everything: some faults need many launches.  See MOST_LOST.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from attribution import errors
from attribution.errors import MeasureError
from attribution.measure.jobfile import Key
from attribution.measure.points import Point, all_runs
from attribution.measure.process import Ended
from attribution.measure.runs import run_facts
from attribution.measured import TRACED
from attribution.partial import Partial
from attribution.plan import PlannedRun

MOST_LOST = 3
"""Workers that may end at one arm's turn though no arm ends one alone; then that arm is left out, and its reason says so."""


@dataclass
class Blame:
    """The points of one measurement, and what was seen of their arms so far.

    `alone` runs one arm in a fresh worker and says how that ended.
    """

    points: Sequence[Point]
    partial: Partial
    alone: Callable[[Key], Ended]
    refused: set[Key] = field(default_factory=set)
    lost: Counter[Key] = field(default_factory=Counter)

    def of(self, ended: Ended) -> tuple[int, str, str, str] | None:
        """(point, question, arm, reason) to leave out, its failed row written; None: nobody, go on as before.

        Raises what an `error` says, and MeasureError for a worker that ended before its first run.
        """
        if ended.kind == "error":
            kind = getattr(errors, str((ended.values or {}).get("kind")), MeasureError)
            raise kind(ended.reason)
        if ended.run is None:
            raise MeasureError(f"the worker ended before its first run: {ended.reason}")
        point, at = next((point, run) for number, point, run in all_runs(self.points) if number == ended.run)
        for run in self._suspects(point, at):
            found = self.alone(_key(point, run))
            if found.kind == "lost":
                return self._leave_out(point, run, found.reason)
        self.lost[_key(point, at)] += 1
        if self.lost[_key(point, at)] < MOST_LOST:
            return None
        words = f"{MOST_LOST} workers ended at its turn, though no arm ends one alone"
        return self._leave_out(point, at, f"{ended.reason} ({words})")

    def _suspects(self, point: Point, at: PlannedRun) -> list[PlannedRun]:
        """The run itself, then what is measured in one go with it, nearest before it first, from the front to the back."""

        def group(run: PlannedRun) -> tuple[str, int, bool]:
            return run.question, run.round, run.arm.name.endswith(TRACED)

        mine = [run for run in point.runs.values() if group(run) == group(at)]
        mine.sort(key=lambda run: (run.position > at.position, abs(at.position - run.position)))
        return [run for run in mine if _key(point, run) not in self.refused]

    def _leave_out(self, point: Point, run: PlannedRun, reason: str) -> tuple[int, str, str, str]:
        import pandas as pd

        self.refused.add(_key(point, run))
        number = run.run + point.first_run
        row = {**run_facts(point.plan, run), "build": "", "inputs": "", "status": "failed", "reason": reason}
        row |= {"begin_ns": time.time_ns(), "run": number}
        if number not in self.partial.done():
            self.partial.add([number], {"runs": pd.DataFrame([row])})
        return (*_key(point, run), f"run {number} ended its worker: {reason}")


def _key(point: Point, run: PlannedRun) -> Key:
    return point.number, run.question, run.arm.name
