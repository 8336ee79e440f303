"""A sweep: plans of one kernel with the same arms, one point after another, into one recording.

In: plans that differ in shape and distribution only.  Out: a Recording whose runs are numbered through; its manifest's
`points` say what was measured, its `plan` is the first point's.
Each point is a `Job` of its own: checked before it is timed, each run's output checked, checked again at its end.  On a GPU
one worker goes through all points (`python -m attribution.measure.sweep JOB OUT`), and another goes on when it is lost.
Misuse: rounds pair arms inside a point; two points were measured at different times and are never paired.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from attribution.declare import Kernel, Variant, load_kernel
from attribution.errors import DataError, InputError
from attribution.measure import ncu, profiled, watch, worker
from attribution.measure.beside import Beside
from attribution.measure.host_machine import HostMachine
from attribution.measure.job import Job, Machine, Progress
from attribution.measure.manifest import manifest, source_hash
from attribution.measure.runs import planned_runs
from attribution.partial import Partial
from attribution.plan import Plan, PlannedRun
from attribution.recording import Recording, check_free

if TYPE_CHECKING:
    import pandas as pd

WORKER = (sys.executable, "-m", "attribution.measure.sweep")
Files = Mapping[str, str]
"""Distribution -> path of the file that it is, for kernels that take inputs from files."""


def part(kernel: Kernel, name: str) -> ModuleType:
    """The module `name` of the kernel's own folder."""
    return importlib.import_module(f"{kernel.inputs.__module__.partition('.')[0]}.{name}")


class Point:
    """One plan of a sweep, and the part of the partial recording that its runs are: what a `Job` sees as its own."""

    def __init__(self, partial: Partial, plan: Plan, number: int, first_run: int, traced_rounds: int) -> None:
        self.partial, self.plan, self.number, self.first_run = partial, plan, number, first_run
        self.runs = {run.run + first_run: run for run in planned_runs(plan, traced_rounds)}

    def done(self) -> set[int]:
        """Finished runs, as the point numbers them."""
        return {run - self.first_run for run in self.partial.done() & set(self.runs)}

    def add(self, runs: Sequence[int], tables: Mapping[str, pd.DataFrame]) -> None:
        shifted = {name: frame.assign(run=frame["run"] + self.first_run) for name, frame in tables.items()}
        self.partial.add([run + self.first_run for run in runs], shifted)

    def execute(
        self,
        kernel: Kernel,
        machine: Machine,
        progress: Progress,
        refused: Mapping[tuple[str, str], str],
        began: Callable[[PlannedRun], None],
    ) -> Job:
        """Measure what is not done yet."""
        label = f"point {self.number + 1}, {self.plan.distribution} "
        total = len(self.runs)

        def told(done: int, of: int, what: str) -> None:
            progress(self.first_run + done, self.first_run + total, label + what)

        def global_began(run: PlannedRun) -> None:
            began(replace(run, run=run.run + self.first_run))

        job = Job(self.plan, kernel, machine, self, None, refused, global_began)  # type: ignore[arg-type]
        job.execute(told)
        return job


def points(partial: Partial, plans: Sequence[Plan], traced_rounds: int = 0) -> list[Point]:
    """The plans with their places in the recording.  Raises InputError for plans that do not belong together."""
    first = plans[0]
    for plan in plans:
        if (plan.kernel, plan.questions, plan.rounds) != (first.kernel, first.questions, first.rounds):
            raise InputError(f"{plan} has other arms or rounds than {first}: a sweep has the same ones at every point")
    out: list[Point] = []
    next_run = 0
    for number, plan in enumerate(plans):
        out.append(Point(partial, plan, number, next_run, traced_rounds))
        next_run += len(out[-1].runs)
    return out


@dataclass(frozen=True)
class Order:
    """What a worker is asked to do.  `refused`: (point, question, arm, reason)."""

    root: str
    plans: tuple[Mapping[str, Any], ...]
    identity: Mapping[str, Any]
    options: worker.Options
    files: Files
    refused: tuple[tuple[int, str, str, str], ...] = ()
    mode: str = "time"
    """`time`, or `ncu`: see `worker.Order`."""

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Order:
        """Raises DataError."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            options = worker.Options(**{**raw["options"], "scopes": tuple(raw["options"]["scopes"])})
            refused = tuple((int(p), str(q), str(a), str(r)) for p, q, a, r in raw["refused"])
            return cls(raw["root"], tuple(raw["plans"]), raw["identity"], options, raw["files"], refused, raw["mode"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is no job file: {type(error).__name__}: {error}") from error


Launches = Callable[..., list[dict[str, Any]]]
"""`profiled.launches`, or what stands in for it."""


def serve(arguments: list[str], make: worker.Maker, launches: Launches = profiled.launches) -> int:
    """Go through all points of the job of `arguments` (JOB.json, OUT).  Returns the exit code."""
    job_file, path = Path(arguments[0]), Path(arguments[1])
    tell = worker.teller(path.with_name(path.name + ".partial"))
    at: list[PlannedRun] = []

    def began(run: PlannedRun) -> None:
        at.append(run)
        tell("began", run=run.run)

    def work() -> None:
        order = Order.read(job_file)
        kernel = load_kernel(Path(order.root), str(order.plans[0]["kernel"]))
        use_files(kernel, order.files)
        partial = Partial(path, order.identity, resume=True, lock=False)
        worker.end_with(partial)
        tell("alive", pid=os.getpid())
        spent = {"runs_s": 0.0, "checks_s": 0.0}
        todo = points(partial, [Plan.from_facts(facts) for facts in order.plans], order.options.traced_rounds)
        last = todo[-1].first_run + len(todo[-1].runs)
        made: list[dict[str, Any]] = []
        for point in todo:
            if order.mode == "time" and len(point.done()) == len(point.runs):
                continue
            refused = {(q, a): reason for p, q, a, reason in order.refused if p == point.number}
            machine = make(kernel, point.plan, order.options, tell)
            if order.mode == "ncu":
                found = launches(machine, point.plan, refused, order.options, tell, len(made))
                made += [{**facts, "point": point.number} for facts in found]
                del machine
                gc.collect()
                continue
            worker.keep_facts(partial.folder, machine.facts())
            progress: Progress = lambda done, of, label: tell("progress", done=done, total=last, label=label)  # noqa: E731
            job = point.execute(kernel, machine, progress, refused, began)
            spent = {"runs_s": spent["runs_s"] + job.runs_s, "checks_s": spent["checks_s"] + job.checks_s}
            del machine, job
            gc.collect()  # a point's matrices are gigabytes
        if order.mode == "ncu":
            (partial.folder / ncu.LAUNCHES).write_text(json.dumps(made), encoding="utf-8")
        tell("finished", rounds=todo[0].plan.rounds, stopping=None, **{k: round(v, 3) for k, v in spent.items()})

    return worker.told(tell, at, work)


def use_files(kernel: Kernel, files: Files) -> None:
    """Tell the kernel which distributions of this process are files."""
    if files:
        part(kernel, "captured").FILES.update({name: Path(file) for name, file in files.items()})


def on_gpu(
    plans: Sequence[Plan],
    kernel: Kernel,
    variants: Mapping[str, Variant],
    path: Path,
    progress: Progress,
    options: worker.Options,
    files: Files,
    extra: Mapping[str, Any],
    resume: bool = False,
    overwrite: bool = False,
    command: Sequence[str] = WORKER,
) -> Recording:
    """Measure with workers into a recording at `path`; `extra` joins its manifest.  Raises InputError, MeasureError, DataError."""
    check_free(path, overwrite)
    began_s = time.monotonic()
    identity = watch.as_json(
        {"plans": [p.facts() for p in plans], "machine": {"kind": "cuda"}, "source": source_hash(kernel),
         "options": asdict(options), "files": [*files]}
    )  # fmt: skip
    partial = Partial(path, identity, resume)
    todo = points(partial, plans, options.traced_rounds)
    root = str(kernel.folder.parent.parent)
    order = Order(root, tuple(p.facts() for p in plans), identity, options, files)
    while True:
        ended = watch.run_worker(order, path, partial.folder, command, options.timeout_s, progress)
        if ended.kind == "finished":
            break
        order = replace(order, refused=(*order.refused, _refuse(ended, todo, partial)))
    assert ended.values is not None

    def start(mode: str, wrapped: Sequence[str]) -> watch.Ended:
        asked = replace(order, mode=mode)
        return watch.run_worker(asked, path, partial.folder, wrapped, options.timeout_s, progress, wait=True)

    refused = {(point, question, arm) for point, question, arm, _ in order.refused}
    beside = Beside([(p.plan, p.runs) for p in todo], path, partial, command, options, refused)
    skips = beside.add([scope for scope in options.scopes if scope == "ncu"], start)
    machine = json.loads((partial.folder / worker.MACHINE).read_text(encoding="utf-8"))
    facts = facts_of(plans, kernel, variants, machine) | dict(extra)
    facts["measuring"] = {**watch.as_json(asdict(options)), "lost": [[q, a, r] for _, q, a, r in order.refused]}
    facts["measuring"]["skipped"] = [asdict(skip) for skip in skips]
    facts["cost"] = {"wall_s": round(time.monotonic() - began_s, 3)}
    facts["cost"] |= {name: ended.values[name] for name in ("runs_s", "checks_s")}
    return partial.publish(facts, overwrite)


def _refuse(ended: watch.Ended, todo: Sequence[Point], partial: Partial) -> tuple[int, str, str, str]:
    """The arm that ended the worker is left out of its point, and of no other one."""
    point = next((p for p in todo if ended.run in p.runs), todo[0])
    runs = {number: replace(run, run=number) for number, run in point.runs.items()}
    return (point.number, *watch.refuse(ended, runs, point.plan, partial))


def on_host(
    plans: Sequence[Plan],
    kernel: Kernel,
    variants: Mapping[str, Variant],
    path: Path,
    progress: Progress,
    files: Files,
    extra: Mapping[str, Any],
    resume: bool = False,
    overwrite: bool = False,
) -> Recording:
    """The same on the reference machine, in this process.  Raises InputError, MeasureError, DataError."""
    check_free(path, overwrite)
    use_files(kernel, files)
    machine = HostMachine(kernel, plans[0])
    identity = watch.as_json(
        {
            "plans": [p.facts() for p in plans],
            "machine": machine.facts(),
            "source": source_hash(kernel),
            "files": [*files],
        }
    )
    partial = Partial(path, identity, resume)
    todo = points(partial, plans)
    last = todo[-1].first_run + len(todo[-1].runs)
    try:
        for point in todo:
            point.execute(
                kernel, HostMachine(kernel, point.plan), lambda done, of, label: progress(done, last, label), {},
                lambda run: None,
            )  # fmt: skip
    except InputError:
        partial.drop_if_empty()
        raise
    return partial.publish(facts_of(plans, kernel, variants, machine.facts()) | dict(extra), overwrite)


def facts_of(
    plans: Sequence[Plan], kernel: Kernel, variants: Mapping[str, Variant], machine: Mapping[str, Any]
) -> dict[str, Any]:
    """A manifest of all points; its plan is the first one, with the names of all distributions."""
    names = ", ".join(dict.fromkeys(plan.distribution for plan in plans))
    facts = manifest(replace(plans[0], distribution=names), kernel, variants, machine)
    return facts | {"points": [{"shape": dict(p.shape), "distribution": p.distribution} for p in plans]}


if __name__ == "__main__":
    from attribution.measure.cuda import CudaMachine

    sys.exit(serve(sys.argv[1:], CudaMachine))
