"""Feeds a stopping rule with the paired ratios of finished rounds, at the ends of whole Williams designs.

In: outcomes of runs as they are made, and those that a stopped job left.  Out: whether to stop.
Misuse: it looks at one scope and stage only, the machine's primary one; the others ride along.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from attribution import order
from attribution.measure import stopping
from attribution.measure.machine import Table
from attribution.measure.outcome import Kept
from attribution.plan import Plan, PlannedRun


class Judge:
    """The times so far, by question, arm and round, and the rule."""

    def __init__(self, plan: Plan, rule: stopping.Rule, primary: tuple[str, str]) -> None:
        self.plan, self.primary = plan, primary
        self.progress = stopping.Progress(rule)
        self.design = math.lcm(*(len(order.williams(len(q.arms))) for q in plan.questions))
        self.times_ns: dict[tuple[str, str], dict[int, float]] = {}
        self.decision: stopping.Decision | None = None

    def resume(self, kept: Kept, runs: Sequence[PlannedRun]) -> None:
        """Take in the times of runs that were finished before."""
        by_number, times = {run.run: run for run in runs}, kept.table("times")
        for number in times["run"].astype(int).unique().tolist():
            if number in by_number:
                self.take(by_number[number], times[times["run"] == number])

    def take(self, run: PlannedRun, times: Table) -> None:
        """Take in the times of one run that ended well."""
        rows = times if isinstance(times, list) else times.to_dict("records")
        mine = [row["time_ns"] for row in rows if (row["scope"], row["stage"]) == self.primary]
        if mine:
            self.times_ns.setdefault((run.question, run.arm.name), {})[run.round] = statistics.median(mine)

    def ratios(self) -> dict[str, list[float]]:
        """`question/arm` -> log-ratios to the base, in the order of the rounds."""
        out = {}
        for question in self.plan.questions:
            base = self.times_ns.get((question.base, question.arms[0].name), {})
            for arm in question.arms[1:]:
                mine = self.times_ns.get((question.base, arm.name), {})
                rounds = sorted(set(base) & set(mine))
                # An arm that was refused has no times and holds nobody up.
                if mine:
                    out[f"{question.base}/{arm.name}"] = [math.log(mine[r] / base[r]) for r in rounds]
        return out

    def may_stop(self, round_number: int) -> bool:
        """Whether this round ends a whole design."""
        return (round_number + 1) % self.design == 0

    def stops(self, round_number: int) -> bool:
        """Whether to stop after this round; decided at the ends of whole designs only."""
        if not self.may_stop(round_number):
            return False
        self.decision = self.progress.decide(self.ratios())
        return self.decision.stop

    def facts(self) -> dict[str, Any]:
        """What the manifest says of how it ended."""
        rule, decision = self.progress.rule, self.decision
        return {
            "precision": rule.precision,
            "budget_s": None if math.isinf(rule.seconds) else rule.seconds,
            "scope": "/".join(self.primary),
            "reached": bool(decision and decision.reached),
            "reason": decision.reason if decision else "less than one whole design was run",
            "half_widths": {k: None if math.isinf(w) else w for k, w in decision.half_widths.items()}
            if decision
            else {},
        }
