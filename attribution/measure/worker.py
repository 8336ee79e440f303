"""The measuring process: reads a job file, goes through its points on a machine, and tells how far it is.

In: JOB.json (an `Order`) and OUT, the recording's path, whose `.partial` folder is there already.
Out: finished runs in `OUT.partial`, facts in its `machine.json`, one JSON line an event in its `progress.jsonl`.
It goes through files, not pipes: a profiler may stand between this process and who started it.
Misuse: it publishes nothing and writes no row for a run that killed it: who started it does.
"""

from __future__ import annotations

import gc
import json
import os
import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attribution.declare import Kernel
from attribution.errors import AttrError, DataError
from attribution.load import load_kernel
from attribution.measure.job import Job
from attribution.measure.jobfile import Options, Order
from attribution.measure.machine import CEILINGS, Machine, MachineLost
from attribution.measure.points import Point, points, use_files
from attribution.partial import Partial
from attribution.plan import Plan, PlannedRun

PROGRESS, MACHINE, LOG, PROFILED = "progress.jsonl", "machine.json", "worker.log", "profiled.json"
FINISHED, FAILED, LOST = 0, 3, 75
"""Exit codes: all done; nothing can be measured, with a sentence; this process cannot go on, another can."""

ORPHAN_S = 1.0
"""How often a worker looks whether anybody still waits for it."""
TIMES_ALONE = 2
"""How often an arm that is suspected is measured alone: what it leaves behind meets itself."""

Tell = Callable[..., None]
"""tell(event, **values): one line of progress, at once."""
Maker = Callable[[Kernel, Plan, Options, Tell], Machine]
Profile = Callable[[Any, Plan, Collection[tuple[str, str]], Options, Path, Tell, int], list[dict[str, Any]]]
"""profile(machine, plan, refused, options, folder, tell, first): facts of every arm, numbered from `first`; see profiled.py."""


def teller(folder: Path) -> Tell:
    """Appends lines to the folder's progress file; each is on its way before the next thing is tried."""

    def tell(event: str, **values: Any) -> None:
        with (folder / PROGRESS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, **values}) + "\n")

    return tell


def serve(arguments: list[str], make: Maker, profiles: Mapping[str, Profile] | None = None) -> int:
    """Do the job of `arguments` (JOB.json, OUT) on the machines that `make` makes.  Returns the exit code."""
    job_file, path = Path(arguments[0]), Path(arguments[1])
    tell = teller(path.with_name(path.name + ".partial"))
    at: list[int] = []

    def began(run: int) -> None:
        at.append(run)
        tell("began", run=run)

    def work() -> None:
        order = Order.read(job_file)
        kernel = load_kernel(Path(order.root), str(order.plans[0]["kernel"]))
        use_files(kernel, order.files)
        partial = Partial(path, order.identity, resume=True, lock=False)
        end_with(partial)
        tell("alive", pid=os.getpid())
        todo = points(partial, [Plan.from_facts(facts) for facts in order.plans], order.options.traced_rounds)
        worker = Worker(order, kernel, partial.folder, todo, make, tell, began)
        if order.mode in (profiles or {}):
            worker.profile((profiles or {})[order.mode])
        elif order.alone is not None:
            worker.alone(*order.alone)
        else:
            worker.time()
        tell("finished", **worker.facts)

    return told(tell, at, work)


@dataclass
class Worker:
    """What one worker does, point by point; a point has a machine of its own."""

    order: Order
    kernel: Kernel
    folder: Path
    todo: Sequence[Point]
    make: Maker
    tell: Tell
    began: Callable[[int], None]
    facts: dict[str, Any] = field(default_factory=dict)
    """What is told at the end: rounds that were run, how the stopping rule ended, hashes of builds, seconds in runs and checks."""

    def time(self) -> None:
        """Measure what is not done yet."""
        self.facts = {
            "rounds": self.todo[0].plan.rounds,
            "stopping": None,
            "builds": {},
            "runs_s": 0.0,
            "checks_s": 0.0,
        }
        for point in self.todo:
            # A rule's last decision is not kept: such a point is gone through again, and measures nothing.
            if self.order.rule is not None or len(point.done()) < len(point.runs):
                self._job(point)
                gc.collect()  # a point's matrices are gigabytes

    def _job(self, point: Point) -> None:
        machine = self.make(self.kernel, point.plan, self.order.options, self.tell)
        keep_facts(self.folder, machine.facts())
        last = self.todo[-1].first_run + len(self.todo[-1].runs)
        label = "" if len(self.todo) == 1 else f"point {point.number + 1}, {point.plan.distribution} "

        def progress(done: int, total: int, what: str) -> None:
            self.tell("progress", done=point.first_run + done, total=last, label=label + what)

        def began(run: PlannedRun | None) -> None:
            self.began(CEILINGS if run is None else run.run + point.first_run)

        order, asked = self.order, (point.plan, self.kernel, machine, point, self.order.rule)
        refused = order.refused_at(point.number)
        job = Job(*asked, refused, began, order.options.keep_s, order.same, order.ceilings)
        job.execute(progress)
        self.facts |= {"rounds": job.rounds_run, "stopping": job.judge.facts() if job.judge else None}
        self.facts["builds"] |= machine.builds()
        for name, spent in (("runs_s", job.runs_s), ("checks_s", job.checks_s)):
            self.facts[name] = round(self.facts[name] + spent, 3)

    def alone(self, point: int, question: str, arm: str) -> None:
        """One arm as a job runs it, and nothing else; nothing is kept: does it end this process all by itself?"""
        here = self.todo[point]
        number, run = next((n, r) for n, r in here.runs.items() if (r.question, r.arm.name) == (question, arm))
        self.tell("progress", done=0, total=TIMES_ALONE, label=f"{arm} alone")
        machine = self.make(self.kernel, here.plan, self.order.options, self.tell)
        self.began(number)
        case, fresh = machine.case(here.plan.seed), machine.case(here.plan.seed + 1)
        machine.output(run.arm, fresh)
        for _ in range(TIMES_ALONE):
            list(machine.measure([run.arm], case, lambda _: self.began(number)))

    def profile(self, profile: Profile) -> None:
        """Every arm of every point inside named ranges, told in the folder."""
        made: list[dict[str, Any]] = []
        for point in self.todo:
            machine = self.make(self.kernel, point.plan, self.order.options, self.tell)
            refused = self.order.refused_at(point.number)
            found = profile(machine, point.plan, refused, self.order.options, self.folder, self.tell, len(made))
            made += [{**facts, "point": point.number} for facts in found]
            del machine
            gc.collect()
        (self.folder / PROFILED).write_text(json.dumps(made), encoding="utf-8")


def told(tell: Tell, at: Sequence[int], work: Callable[[], None]) -> int:
    """Do the work; what ends it is told, with the last run that began.  Returns the exit code."""
    try:
        work()
        return FINISHED
    except MachineLost as error:
        tell("lost", run=at[-1] if at else None, reason=str(error))
        return LOST
    except AttrError as error:
        tell("error", kind=type(error).__name__, message=str(error))
        return FAILED
    except Exception as error:  # a mistake of ours or of the kernel's module: its traceback is for the log
        traceback.print_exc()
        tell("error", kind="MeasureError", message=f"the worker failed: {type(error).__name__}: {error}")
        return FAILED


def end_with(partial: Partial) -> None:
    """End this process soon after the one that measures into `partial` has ended, however it ended, profiler or not."""

    def watch() -> None:
        while partial.held():
            time.sleep(ORPHAN_S)
        os._exit(LOST)

    threading.Thread(target=watch, daemon=True).start()


def keep_facts(folder: Path, facts: Mapping[str, Any]) -> None:
    """The first worker's facts describe the recording; a later one must be on the same machine.  Raises DataError."""
    file = folder / MACHINE
    if not file.exists():
        new = file.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(facts, indent=1), encoding="utf-8")
        new.rename(file)
        return
    first = json.loads(file.read_text(encoding="utf-8"))
    for key in ("kind", "name", "sms", "uuid_hash", "driver"):
        if first.get(key) != facts.get(key):
            raise DataError(
                f"this measurement began on a machine with {key} = {first.get(key)!r} and would go on with "
                f"{facts.get(key)!r}: go on there, or measure anew"
            )
