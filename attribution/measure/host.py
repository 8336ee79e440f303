"""The reference machine: runs a kernel's algorithm for real on the CPU, task by task, and places the tasks on virtual SMs.

In: a Kernel whose `host` executes tasks under a `Clock` and returns a `HostRun`; flags, knobs `ctas` and `sms`.
Out: a `Measured`: output, times per stage (scope host-virtual), trace events, counters.
A task's time is CPU time of this thread (other processes do not count), so tasks must not start threads of their own:
`one_thread()` keeps BLAS to one.  Stages run one after the other with no gap.
Misuse: a virtual time says nothing about any GPU's speed, and is never compared with one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attribution import collector
from attribution.called import called
from attribution.declare import Flags, FlagValue, Inputs, Kernel, Shape
from attribution.errors import MeasureError
from attribution.measure.machine import Measured, Table
from attribution.schedule import Pipeline, place

if TYPE_CHECKING:
    import pandas as pd

    from attribution.schedule import Placement

SCOPE = "host-virtual"
NS_PER_CYCLE = 1
"""The virtual clock runs at 1 GHz: DELAY_CYCLES are nanoseconds."""


class Clock:
    """Times tasks.  `with clock.task("main", "math", batch): ...` adds one item to that stage, role and batch."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        self.counts: dict[tuple[str, str], int] = defaultdict(int)
        self.delays_ns: dict[str, int] = {}

    @contextmanager
    def task(self, stage: str, role: str, batch: int) -> Iterator[None]:
        """Time the body as the next item of this role and batch; a delayed role is held up inside it."""
        begin = time.thread_time_ns()
        yield
        if delay := self.delays_ns.get(role, 0) if stage == "main" else 0:
            until = time.thread_time_ns() + delay
            while time.thread_time_ns() < until:
                pass
        self.items[stage, role][batch].append(time.thread_time_ns() - begin)

    def count(self, stage: str, metric: str, amount: int) -> None:
        """Add to a counter where the counted thing is done, never from what was planned."""
        self.counts[stage, metric] += amount


@dataclass(frozen=True)
class Stage:
    """One launch of the operator: its pipeline, and how many rows each of its batches holds.

    `ctas` None means one CTA for every batch (an ordinary grid); the traced stage uses the knob.
    """

    name: str
    pipeline: Pipeline
    batch_rows: Sequence[int]
    ctas: int | None = None
    traced: bool = False


@dataclass(frozen=True)
class HostRun:
    """What a kernel's `host` returns: output, stages in order, units of its counters, and capacity failures."""

    output: Any
    stages: tuple[Stage, ...]
    units: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Limit -> (failures, of)."""


def one_thread() -> AbstractContextManager[Any]:
    """Keep BLAS to one thread: with two, null pairs differ by 7 to 14 % instead of 1.4 to 2.4 % (2 cores)."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1)  # type: ignore[no-any-return]


def measure(kernel: Kernel, inputs: Inputs, shape: Shape, flags: Flags, knobs: Mapping[str, int]) -> Measured:
    """Execute one variant once.  The caller holds `one_thread()` and checks the output."""
    assert kernel.host is not None
    clock = Clock()
    role = flags.get("DELAY_ROLE", "none")
    if role != "none":
        clock.delays_ns[str(role)] = int(flags["DELAY_CYCLES"]) * NS_PER_CYCLE
    # Over the tables of earlier runs a collection took 40 ms inside one task of 1 ms.
    with collector.paused():
        run = called(kernel.name, "host", kernel.host, inputs, shape, flags, knobs, clock, error=MeasureError)
    _check_run(kernel, run, clock)
    placements = {s.name: _place(s, clock, knobs, flags) for s in run.stages}
    tables: dict[str, Table] = {"times": _times(placements), "counters": _counters(run, clock, placements)}
    tables["capacity"] = _capacity(run)
    for stage in run.stages:
        if stage.traced:
            tables |= _trace(kernel, stage, placements[stage.name], knobs)
    return Measured(run.output, tables)


def _check_run(kernel: Kernel, run: object, clock: Clock) -> None:
    """Every task belongs to a role of a stage, and every stage has tasks: else its time would be short.  Raises MeasureError."""
    if not isinstance(run, HostRun):
        raise MeasureError(f"kernel {kernel.name}: host gave {type(run).__name__}: must be a HostRun")
    batches = {(s.name, role.name): len(s.batch_rows) for s in run.stages for role in s.pipeline.roles}
    for (stage, role), items in clock.items.items():
        if (stage, role) not in batches:
            known = ", ".join(f"{s}/{r}" for s, r in batches) or "none"
            raise MeasureError(
                f"kernel {kernel.name}: host timed a task of {stage}/{role}, which is no role of a stage that it returned: {known}"
            )
        if wrong := [batch for batch in items if not 0 <= batch < batches[stage, role]]:
            raise MeasureError(
                f"kernel {kernel.name}: host timed a task of {stage}/{role} for batch {wrong[0]}: "
                f"allowed are 0 to {batches[stage, role] - 1}"
            )
    if "main" not in {stage.name for stage in run.stages}:
        names = ", ".join(stage.name for stage in run.stages) or "none"
        raise MeasureError(
            f"kernel {kernel.name}: host returned no stage `main`, which questions are about; it has: {names}"
        )


def _place(stage: Stage, clock: Clock, knobs: Mapping[str, int], flags: Mapping[str, FlagValue]) -> Placement:
    batches = len(stage.batch_rows)
    times = [[clock.items[stage.name, role.name][b] for b in range(batches)] for role in stage.pipeline.roles]
    ctas = batches if stage.ctas is None else stage.ctas
    return place(stage.pipeline, times, max(1, ctas), knobs["sms"], flags.get("TRACE") == 2)


def _times(placements: Mapping[str, Placement]) -> pd.DataFrame:
    import pandas as pd

    spans = {name: float(p.makespan_ns) for name, p in placements.items()}
    rows = {"operator": sum(spans.values()), **spans}
    return pd.DataFrame(
        {
            "scope": SCOPE,
            "stage": list(rows),
            "cache": "none",
            "clock": "none",
            "sample": 0,
            "time_ns": list(rows.values()),
            "clock_mhz": 1e3 / NS_PER_CYCLE,
            "flags": "",
        }
    )


def _counters(run: HostRun, clock: Clock, placements: Mapping[str, Placement]) -> pd.DataFrame:
    """Declared counters; one that the run never touched is zero, because the host counts every one where it happens."""
    import pandas as pd

    rows = []
    for stage in run.stages:
        for metric, unit in run.units.items():
            value = clock.counts.get((stage.name, metric), 0)
            rows.append((stage.name, metric, unit, value))
        placed = placements[stage.name]
        rows.append((stage.name, "ctas", "1", len(placed.cta_sm)))
        rows.append((stage.name, "sms", "1", len(set(placed.cta_sm.tolist()))))
    frame = pd.DataFrame(rows, columns=["stage", "metric", "unit", "value"]).astype({"value": float})
    return frame.assign(
        scope=SCOPE,
        kernel_name="",
        launch=-1,
        instance="",
        state=["value" if v else "zero" for v in frame["value"]],
        pass_group=-1,
        source="host",
    )


def _capacity(run: HostRun) -> pd.DataFrame:
    import pandas as pd

    rows = [(limit, failed, of) for limit, (failed, of) in run.capacity.items()]
    return pd.DataFrame(rows, columns=["limit", "failures", "of"])


def _trace(kernel: Kernel, stage: Stage, placed: Placement, knobs: Mapping[str, int]) -> dict[str, pd.DataFrame]:
    """events, lanes and rows of the traced stage; two events a span, in lane order (an end before a begin at one stamp)."""
    import numpy as np
    import pandas as pd

    roles = {name: i for i, name in enumerate(kernel.roles)}
    codes = {event.name: i for i, event in enumerate(kernel.events)}
    role_ids = np.array([roles[r.name] for r in stage.pipeline.roles], dtype=np.int8)
    first_row = np.concatenate([[0], np.cumsum(stage.batch_rows)[:-1]])
    spans = pd.DataFrame(
        {
            "cta": placed.cta,
            "role": role_ids[placed.role],
            "event": [codes[e] for e in placed.event],
            "arg": first_row[placed.batch],
            "begin_ns": placed.begin_ns,
            "end_ns": placed.end_ns,
        }
    )
    events = _edges(spans)
    ctas = len(placed.cta_sm)
    lanes = pd.MultiIndex.from_product([range(ctas), role_ids], names=["cta", "role"]).to_frame(index=False)
    attempts = events.groupby(["cta", "role"], observed=True).size()
    lanes["sm_begin"] = lanes["sm_end"] = placed.cta_sm[lanes["cta"]]
    lanes["attempts"] = attempts.reindex(pd.MultiIndex.from_frame(lanes[["cta", "role"]])).fillna(0).to_numpy()
    lanes["capacity"] = lanes["attempts"]
    owner = np.arange(len(stage.batch_rows)) % ctas
    rows = pd.DataFrame(
        {
            "cta": np.arange(ctas),
            "sm": placed.cta_sm,
            "rows": np.bincount(owner, weights=stage.batch_rows, minlength=ctas).astype(int),
        }
    )
    return {"events": events, "lanes": lanes, "rows": rows}


def _edges(spans: pd.DataFrame) -> pd.DataFrame:
    """Two rows a span.  Spans of a lane nest, so ordering by depth-first position keeps begin and end matched."""
    import numpy as np
    import pandas as pd

    order: list[tuple[int, int]] = []
    stack: list[int] = []
    cta, role = spans["cta"].to_numpy(), spans["role"].to_numpy()
    begin, end = spans["begin_ns"].to_numpy(), spans["end_ns"].to_numpy()
    for i in range(len(spans)):
        while stack and (cta[stack[-1]] != cta[i] or role[stack[-1]] != role[i] or end[stack[-1]] <= begin[i]):
            order.append((stack.pop(), 1))
        order.append((i, 0))
        stack.append(i)
    while stack:
        order.append((stack.pop(), 1))
    which, edge = np.array(order, dtype=np.int64).reshape(-1, 2).T
    out = spans[["cta", "role", "event", "arg"]].iloc[which].reset_index(drop=True)
    out["edge"] = edge
    out["time_ns"] = np.where(edge == 0, begin[which], end[which])
    return pd.DataFrame(out)
