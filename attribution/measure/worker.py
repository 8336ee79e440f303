"""The measuring process: reads a job file, runs a `Job` on its machine, and tells how far it is.

In: JOB.json (`Order`) and OUT, the recording's path, whose `.partial` folder is there already.
Out: finished runs in `OUT.partial`, facts in its `machine.json`, one JSON line an event in its `progress.jsonl`.
It goes through files, not pipes: a profiler may stand between this process and who started it.
Misuse: it publishes nothing and writes no row for a run that killed it: who started it does.
"""

from __future__ import annotations

import json
import os
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from attribution.declare import Kernel, load_kernel
from attribution.errors import AttrError, DataError
from attribution.measure import stopping
from attribution.measure.job import Job, Machine, MachineLost
from attribution.partial import Partial
from attribution.plan import Plan, PlannedRun

PROGRESS, MACHINE, LOG = "progress.jsonl", "machine.json", "worker.log"
FINISHED, FAILED, LOST = 0, 3, 75
"""Exit codes: all done; nothing can be measured, with a sentence; this process cannot go on, another can."""

ORPHAN_S = 1.0
"""How often a worker looks whether anybody still waits for it."""


@dataclass(frozen=True)
class Options:
    """How a GPU is to measure.

    `traced_rounds`: rounds in which every arm runs once more with TRACE on.  `timeout_s`: silence that counts as a hang.
    `keep_s`: how long a finished run may wait to be written with others; a worker that dies takes those along, and they are
    measured again.
    """

    scopes: tuple[str, ...] = ("event", "graph")
    cache: str = "warm"
    samples: int = 10
    traced_rounds: int = 6
    timeout_s: float = 120.0
    keep_s: float = 2.0
    stages: tuple[str, ...] = ("main", "operator")
    """What scope graph replays and ncu profiles; `operator` is all of them."""
    rest: float = 1.0
    """Rest of the card after each arm's turn, as a multiple of the turn's work: at most half of any 50 ms is then work."""


class Written(Protocol):
    """What a worker is asked to do, in any form that can be written into a job file."""

    def write(self, path: Path) -> None: ...


@dataclass(frozen=True)
class Order:
    """What a worker of one plan is asked to do."""

    root: str
    plan: Mapping[str, Any]
    identity: Mapping[str, Any]
    options: Options = field(default_factory=Options)
    rule: stopping.Rule | None = None
    refused: tuple[tuple[str, str, str], ...] = ()
    """(question, arm, reason): runs of these are skipped."""
    same: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Variant -> counters that it must share with its base."""
    mode: str = "time"
    """`time` runs the job; another one (ncu, cupti) is a profiler's and runs every arm inside named ranges."""

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Order:
        """Raises DataError."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            options = raw.pop("options")
            options |= {name: tuple(options[name]) for name in ("scopes", "stages")}
            rule = raw.pop("rule")
            refused = tuple((q, a, r) for q, a, r in raw.pop("refused"))
            return cls(
                **raw, options=Options(**options), rule=None if rule is None else stopping.Rule(**rule), refused=refused
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is no job file: {type(error).__name__}: {error}") from error


Tell = Callable[..., None]
"""tell(event, **values): one line of progress, at once."""
Maker = Callable[[Kernel, Plan, Options, Tell], Machine]


def teller(folder: Path) -> Tell:
    """Appends lines to the folder's progress file; each is on its way before the next thing is tried."""

    def tell(event: str, **values: Any) -> None:
        with (folder / PROGRESS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, **values}) + "\n")

    return tell


Mode = Callable[[Any, Plan, Order, Path, Tell], None]


def serve(arguments: list[str], make: Maker, modes: Mapping[str, Mode] | None = None) -> int:
    """Do the job of `arguments` (JOB.json, OUT) on the machine that `make` makes.  Returns the exit code."""
    job_file, path = Path(arguments[0]), Path(arguments[1])
    tell = teller(path.with_name(path.name + ".partial"))
    at: list[PlannedRun] = []

    def began(run: PlannedRun) -> None:
        at.append(run)
        tell("began", run=run.run)

    def work() -> None:
        order = Order.read(job_file)
        kernel = load_kernel(Path(order.root), str(order.plan["kernel"]))
        plan = Plan.from_facts(order.plan)
        partial = Partial(path, order.identity, resume=True, lock=False)
        end_with(partial)
        tell("alive", pid=os.getpid())
        machine = make(kernel, plan, order.options, tell)
        keep_facts(partial.folder, machine.facts())
        if order.mode != "time":
            (modes or {})[order.mode](machine, plan, order, partial.folder, tell)
            tell("finished", rounds=plan.rounds, stopping=None, runs_s=0.0, checks_s=0.0)
            return
        refused = {(q, a): reason for q, a, reason in order.refused}
        job = Job(plan, kernel, machine, partial, order.rule, refused, began, order.options.keep_s, order.same)
        job.execute(lambda done, total, label: tell("progress", done=done, total=total, label=label))
        spent = {"runs_s": round(job.runs_s, 3), "checks_s": round(job.checks_s, 3)}
        tell("finished", rounds=job.rounds_run, stopping=job.judge.facts() if job.judge else None, **spent)

    return told(tell, at, work)


def told(tell: Tell, at: Sequence[PlannedRun], work: Callable[[], None]) -> int:
    """Do the work; what ends it is told, with the last run that began.  Returns the exit code."""
    try:
        work()
        return FINISHED
    except MachineLost as error:
        tell("lost", run=at[-1].run if at else None, reason=str(error))
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
