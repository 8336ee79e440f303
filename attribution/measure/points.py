"""The points of a measurement: plans of one kernel with the same arms, numbered through in one recording.

In: a partial recording, its plans.  Out: `Point` values: each is the part of the recording that a `Job` sees as its own.
One plan is one point.  A kernel that takes inputs from files is told of them here, in every process that measures it.
Misuse: rounds pair arms inside a point; two points were measured at different times and are never paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from attribution.declare import Kernel
from attribution.errors import InputError
from attribution.load import module_of
from attribution.measure.runs import planned_runs
from attribution.partial import Partial
from attribution.plan import Plan, PlannedRun

if TYPE_CHECKING:
    import pandas as pd

Files = Mapping[str, str]
"""Distribution -> path of the file that it is, for kernels that take inputs from files."""


class Point:
    """One plan, its place among the plans, and its runs: number in the recording -> the run as the plan numbers it."""

    def __init__(self, partial: Partial, plan: Plan, number: int, first_run: int, traced_rounds: int) -> None:
        self.partial, self.plan, self.number, self.first_run = partial, plan, number, first_run
        self.runs = {run.run + first_run: run for run in planned_runs(plan, traced_rounds)}

    def done(self) -> set[int]:
        """Finished runs, as the plan numbers them."""
        return {run - self.first_run for run in self.partial.done() & set(self.runs)}

    def add(self, runs: Sequence[int], tables: Mapping[str, pd.DataFrame]) -> None:
        """Keep tables of runs as the plan numbers them."""
        shifted = {name: frame.assign(run=frame["run"] + self.first_run) for name, frame in tables.items()}
        self.partial.add([run + self.first_run for run in runs], shifted)

    def table(self, name: str) -> pd.DataFrame:
        """What the point has of one table so far, its runs as the plan numbers them."""
        frame = self.partial.table(name)
        return frame[frame["run"].isin(set(self.runs))].assign(run=lambda mine: mine["run"] - self.first_run)


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


def all_runs(points: Sequence[Point]) -> Iterator[tuple[int, Point, PlannedRun]]:
    """(number in the recording, its point, the run as its plan numbers it) of every run, in order."""
    for point in points:
        for number, run in point.runs.items():
            yield number, point, run


def gpu_module(kernel: Kernel) -> ModuleType:
    """The module in the kernel's folder that `Kernel.gpu` names.  Raises InputError."""
    if kernel.gpu is None:
        raise InputError(f"kernel {kernel.name} names no GPU module: it runs on the host machine only")
    module = module_of(kernel, kernel.gpu)
    for name in ("inputs", "operator", "reference", "check"):
        if not callable(getattr(module, name, None)):
            raise InputError(f"kernel {kernel.name}: its GPU module {kernel.gpu} has no function {name}")
    return module


def use_files(kernel: Kernel, files: Files) -> None:
    """Tell the kernel which distributions of this process are files."""
    if files:
        module_of(kernel, "captured").FILES.update({name: Path(file) for name, file in files.items()})
