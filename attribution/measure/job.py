"""Executes a plan on a machine: checks first, then the rounds, then checks again; each finished run is kept.

In: a Plan, its Kernel, a `Machine`, a path.  Out: a Recording; every run that failed or was skipped is a row with its reason.
An arm whose output is wrong on fresh inputs before timing is not timed.  The output behind each timed run is checked as well
(on a GPU that of one more execution of what was timed), and each arm once more on fresh inputs at the end.  Both machines go
through the same `Job`.
Misuse: do not call a machine from elsewhere; what is timed here is what the checks saw.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from attribution.declare import Check, Kernel, Variant
from attribution.errors import AttrError
from attribution.measure import stopping
from attribution.measure.host_machine import HostMachine
from attribution.measure.judge import Judge
from attribution.measure.machine import FAULTS, Case, Machine, Progress
from attribution.measure.manifest import declared, manifest, source_hash
from attribution.measure.outcome import Kept, Outcome, Waiting, first_failed
from attribution.measure.runs import planned_runs
from attribution.measured import TRACED
from attribution.partial import Partial
from attribution.plan import Arm, Plan, PlannedRun
from attribution.recording import Recording, check_free

CEILING_ROUNDS = 12
"""Rounds before which the machine's ceilings are measured."""


class Job:
    """One measurement under way.

    `refused`: (question, arm) -> why its runs are skipped, from the start or from a failed check on.
    `began` is told every run just before it starts, and None before the ceilings, which are measured where `ceilings` says so.
    `same`: variant -> the counters that it must share with its base.
    Finished runs wait up to `keep_s` to be written together: writing takes longer than a short round.
    """

    def __init__(
        self,
        plan: Plan,
        kernel: Kernel,
        machine: Machine,
        kept: Kept,
        rule: stopping.Rule | None = None,
        refused: Mapping[tuple[str, str], str] | None = None,
        began: Callable[[PlannedRun | None], None] = lambda run: None,
        keep_s: float = 0.0,
        same: Mapping[str, Sequence[str]] | None = None,
        ceilings: bool = True,
    ) -> None:
        self.plan, self.kernel, self.machine, self.kept, self.began = plan, kernel, machine, kept, began
        self.refused: dict[tuple[str, str], str] = dict(refused or {})
        self.checked: set[tuple[str, str]] = set()
        self.described: set[tuple[str, str]] = set()
        self.judge = None if rule is None else Judge(plan, rule, machine.primary)
        self.rounds_run, self.same, self.ceilings = plan.rounds, dict(same or {}), ceilings
        self.waiting = Waiting(kept, keep_s)
        self.runs_s = self.checks_s = 0.0

    def execute(self, progress: Progress) -> None:
        """All runs that are not done yet, in order, until the plan or the stopping rule ends it."""
        try:
            self._execute(progress)
        finally:
            self.waiting.write()

    def _execute(self, progress: Progress) -> None:
        runs, done = planned_runs(self.plan, self.machine.traced_rounds), self.kept.done()
        self.case = self.machine.case(self.plan.seed)
        # A resumed job checks its arms again: what was true before the stop need not be true now.
        before, after = (self.machine.case(self.plan.seed + i) for i in (1, 2))
        if self.judge:
            self.judge.resume(self.kept, runs)
        last = {(run.question, run.arm.name): run.run for run in runs}
        held: list[tuple[PlannedRun, Outcome]] = []
        count, ceilings_of = 0, -1
        for visit in self._visits(runs):
            first, left = visit[0], [run for run in visit if run.run not in done]
            names = ", ".join(run.arm.name for run in visit)
            progress(count, len(runs), f"{names}, round {first.round + 1} of {self.plan.rounds}")
            count += len(visit)
            outcomes = self._visit(left, before) if left else []
            good = [out for out in outcomes if out.status == "ok"]
            if good and self.ceilings and ceilings_of < first.round < CEILING_ROUNDS:
                # Behind the round's pairs: whatever it leaves meets the next round's first arm, which changes.
                ceilings_of = first.round
                self.began(None)
                good[-1].add_counters(self.machine.ceilings())
            held += zip(left, outcomes, strict=True)
            ends = count == len(runs) or runs[count].round != first.round
            # Where the rule may stop, a round waits for its decision: the checks after timing belong to its runs.
            if self.judge and self.judge.may_stop(first.round) and not ends:
                continue
            stop = bool(self.judge and ends and self.judge.stops(first.round))
            self._keep(held, after, lambda run, stop=stop: stop or last[run.question, run.arm.name] == run.run)  # type: ignore[misc]
            held = []
            if stop:
                self.rounds_run = first.round + 1
                break
        progress(len(runs), len(runs), "done")

    def _visits(self, runs: Sequence[PlannedRun]) -> list[list[PlannedRun]]:
        """Runs that are measured in one go: each alone, or the arms of a question in one round where the machine can."""

        def key(run: PlannedRun) -> object:
            if not self.machine.together:
                return run.run
            return run.round, run.question, run.arm.name.endswith(TRACED)

        return [list(group) for _, group in itertools.groupby(runs, key)]

    def _keep(
        self, held: Sequence[tuple[PlannedRun, Outcome]], after: Case, is_last: Callable[[PlannedRun], bool]
    ) -> None:
        """Take finished runs to be written; an arm's last one is checked on fresh inputs before."""
        for run, out in held:
            if is_last(run):
                self._check_after(run, out, after)
            self.waiting.take(run.run, out.rows(self.plan, run, self.case.hash))
        self.waiting.write_when_due()

    def _check_after(self, run: PlannedRun, out: Outcome, after: Case) -> None:
        """The arm once more on fresh inputs, behind its last run."""
        if out.status == "ok":
            self.began(run)
            out.reason = self._fresh(after, run.arm, "after", out.checks)
            out.status = "failed" if out.reason else "ok"

    def _fresh(self, case: Case, arm: Arm, when: str, into: list[tuple[str, Check]]) -> str:
        """Check the arm on fresh inputs.  Returns the reason to refuse it, or ''."""
        begin_s, found = time.monotonic(), "wrong output"
        try:
            checks = case.check(arm, self.machine.output(arm, case))
        except FAULTS as error:
            checks, found = [Check("runs", False, f"{type(error).__name__}: {error}")], "no output"
        self.checks_s += time.monotonic() - begin_s
        into.extend((when, c) for c in checks)
        return first_failed(checks, f"{found} on fresh inputs (seed {case.seed}) {when} timing")

    def _visit(self, runs: Sequence[PlannedRun], before: Case) -> list[Outcome]:
        """Check the arms that were not checked yet, and measure the runs together."""
        outcomes = [self._ready(run, before) for run in runs]
        ready = [(run, out) for run, out in zip(runs, outcomes, strict=True) if out.status == "ok"]
        try:
            self._measure(ready)
        except FAULTS as error:
            # Whose fault it was shows when each runs alone.
            for run, out in ready:
                if len(ready) == 1:
                    out.fail(f"{type(error).__name__}: {error}")
                    continue
                try:
                    self._measure([(run, out)])
                except FAULTS as own:
                    out.fail(f"{type(own).__name__}: {own}")
        for run, out in ready:
            if out.status == "ok":
                self._take(run, out)
        return outcomes

    def _take(self, run: PlannedRun, out: Outcome) -> None:
        """A run that ended well: the first one of an arm in its question says what it is made of."""
        if (key := (run.question, run.arm.name)) not in self.described:
            self.described.add(key)
            out.add_counters(self.machine.static(run.arm))
        if self.judge:
            self.judge.take(run, out.tables.get("times", []))

    def _ready(self, run: PlannedRun, before: Case) -> Outcome:
        """An outcome to fill, after the arm was built and checked if that was not done yet."""
        out, key = Outcome(time.time_ns()), (run.question, run.arm.name)
        self.began(run)
        if key not in self.refused and key not in self.checked:
            self.checked.add(key)
            if reason := self._lost_work(run) or self._fresh(before, run.arm, "before", out.checks):
                self.refused[key] = reason
        if key in self.refused:
            out.status, out.reason = "skipped", self.refused[key]
            return out
        try:
            out.build = self.machine.build(run.arm)
        except FAULTS as error:
            out.fail(f"{type(error).__name__}: {error}")
        return out

    def _lost_work(self, run: PlannedRun) -> str:
        """Why an arm need not run at all: its machine code lacks what it must share with its base."""
        base = next(q.arms[0] for q in self.plan.questions if q.base == run.question)
        try:
            return self.machine.lost_work(base, run.arm, self.same.get(run.arm.variant, ()))
        except FAULTS as error:
            return f"{type(error).__name__}: {error}"

    def _measure(self, ready: Sequence[tuple[PlannedRun, Outcome]]) -> None:
        """One run of each, and the check of what it left behind.  Raises what the machine raises."""
        if not ready:
            return
        begin_s = time.monotonic()
        arms = [run.arm for run, _ in ready]
        found = iter(self.machine.measure(arms, self.case, lambda i: self.began(ready[i][0])))
        self.runs_s += time.monotonic() - begin_s
        left = []
        for run, _ in ready:
            begin_s = time.monotonic()
            self.began(run)  # a check may end the process as well
            measured = next(found)
            left.append((dict(measured.tables), self.case.check(run.arm, measured.output)))
            self.checks_s += time.monotonic() - begin_s
        for (_, out), (tables, seen) in zip(ready, left, strict=True):
            out.tables = tables
            out.checks += [("after", c) for c in seen]
            if reason := first_failed(seen, "wrong output of the timed run"):
                out.fail(reason)


def execute(
    plan: Plan,
    kernel: Kernel,
    variants: Mapping[str, Variant],
    path: Path,
    progress: Progress,
    resume: bool = False,
    overwrite: bool = False,
    rule: stopping.Rule | None = None,
) -> Recording:
    """Measure `plan` on the reference machine into a recording at `path`.  Raises InputError, MeasureError, DataError."""
    check_free(path, overwrite)
    machine = HostMachine(kernel, plan)
    identity = {**plan.facts(), "machine": machine.facts(), "source": source_hash(kernel)}
    identity["variants"] = declared(plan, variants)
    partial = Partial(path, identity, resume)
    try:
        job = Job(plan, kernel, machine, partial, rule)
        job.execute(progress)
    except AttrError:
        partial.drop_if_empty()
        raise
    facts = manifest(replace(plan, rounds=job.rounds_run), kernel, variants, machine.facts())
    if job.judge:
        facts["stopping"] = job.judge.facts()
    return partial.publish(facts, overwrite)
