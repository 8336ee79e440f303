"""Samples in scopes event and graph, each with the SM clock it ran at: the arms of a round right behind one another.

In: `Prepared` arms (several copies of each where the cache is to be cold), in the order of the round; `Stamps`.
Out: for each arm rows of the table `times`.
Two arms are compared by what they take at nearly the same moment and in the same state: in each scope and stage they take
turns, each turn is short, and the card rests after it.  (Seen: 50 ms of matrix work after a rest an H200 at its power limit
goes from 1785 to 1605 MHz; without rests equal arms differed by 3 to 7 % from round to round.)  The stream is held before a
turn while the host enqueues all of it, so that no sample waits for Python; one that the card reached before the host had
enqueued all of it is flagged `host-bound`.  Stamps lie outside the events of a sample.
Misuse: a stage's time in scope event has events around it that the operator's time has not: they are other samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from attribution.measure import clocks
from attribution.measure.prepared import Prepared
from attribution.measure.stamp import Stamps

ENQUEUE_NS = 25_000
"""Host time to enqueue one launch, event or stamp, generously: what the hold has to cover."""
LONGEST_HOLD_NS = 20_000_000
WARM_UPS, WARM_UP_NS = 3, 5e6
"""Executions before the first sample of a turn: so many, or as many as fit into that time, and one at least.

An idle card's first executions are slower (seen: by 5 % at 10 us).
"""

HOST_BOUND = "host-bound"
"""Flag of a sample that the card reached before the host had enqueued all of it: its time may be the host's."""

Began = Callable[[int], None]
"""began(i): arm i is next."""
One = Callable[[int, Callable[[], None]], None]
"""one(i, record) enqueues execution i, and record() at each of its events."""


class Sample(NamedTuple):
    """One sample of a turn: spans between neighbouring events, ns; its SM clock, MHz; whether it may have waited for the host."""

    spans_ns: list[float]
    clock_mhz: float
    host_bound: bool


class Row(NamedTuple):
    """One sample of a stage, on its way to the table `times`."""

    scope: str
    stage: str
    sample: int
    time_ns: float
    clock_mhz: float
    host_bound: bool


@dataclass(frozen=True)
class Timed:
    """What the turns of a pass have in common: samples of each, rest after it as a multiple of its work, who is told."""

    samples: int
    rest: float = 0.0
    longest_ns: float = 0.0
    """What one execution takes at most, as far as that is known."""
    began: Began = lambda i: None


@dataclass(frozen=True)
class Turn:
    """One arm in a pass: `events` a sample, about `calls` things to enqueue for each execution, `copies` to rotate over.

    before: executions, not timed, that have to have run before the turn; each takes about as long as a sample.
    """

    one: One
    events: int
    calls: int
    copies: int = 1
    before: Sequence[Callable[[], None]] = ()

    def warm_ups(self, longest_ns: float) -> int:
        """All copies once and in order, so that a cold protocol's first sample is cold as well."""
        if self.copies > 1:
            return self.copies
        return max(1, min(WARM_UPS, int(WARM_UP_NS / max(longest_ns, 1.0))))


def event_samples(arms: Sequence[Sequence[Prepared]], stamps: Stamps, timed: Timed, stages: bool) -> list[list[Row]]:
    """Eager executions of each arm, its copies in turn; with `stages`, events at every stage boundary instead."""
    bounds = [copies[0].stage_bounds() for copies in arms]
    turns = [
        _eager(copies, [b[1] for b in bound] if stages else [0]) for copies, bound in zip(arms, bounds, strict=True)
    ]
    out = []
    for samples, bound in zip(run_pass(stamps, turns, timed), bounds, strict=True):
        rows: list[Row] = []
        for i, sample in enumerate(samples):
            total: dict[str, float] = {}
            for stage, ns in zip([b[0] for b in bound] if stages else ["operator"], sample.spans_ns, strict=True):
                total[stage] = total.get(stage, 0.0) + ns
            rows += [Row("event", stage, i, ns, sample.clock_mhz, sample.host_bound) for stage, ns in total.items()]
        out.append(rows)
    return out


def _eager(copies: Sequence[Prepared], marks: Sequence[int]) -> Turn:
    def one(i: int, record: Callable[[], None]) -> None:
        copies[i % len(copies)].run(between=lambda step: record() if step in marks else None)
        record()

    return Turn(one, len(marks) + 1, len(copies[0].operator.steps) + len(marks) + 1, len(copies))


def graph_samples(
    arms: Sequence[Sequence[Prepared]], stamps: Stamps, timed: Timed, stages: Sequence[str]
) -> list[list[Row]]:
    """Replays of the graph of each arm's stage, its copies in turn."""
    turns = [_replayed(copies, stage) for copies, stage in zip(arms, stages, strict=True)]
    found = run_pass(stamps, turns, timed)
    return [
        [Row("graph", stage, i, one.spans_ns[0], one.clock_mhz, one.host_bound) for i, one in enumerate(samples)]
        for samples, stage in zip(found, stages, strict=True)
    ]


def _replayed(copies: Sequence[Prepared], stage: str) -> Turn:
    """A stage alone reads what the stages before it left: in memory that all arms share, what its own operator leaves now."""
    replays = [one.graph(stage) for one in copies]
    before = [copy.again for copy in copies] if stage != "operator" else []

    def one(i: int, record: Callable[[], None]) -> None:
        record()
        replays[i % len(replays)]()
        record()

    return Turn(one, 2, 4, len(copies), before)


def call_samples(function: Callable[[], Any], stamps: Stamps, samples: int) -> list[Sample]:
    """Samples of a torch call between events, one span each."""

    def one(i: int, record: Callable[[], None]) -> None:
        record()
        function()
        record()

    return run_pass(stamps, [Turn(one, 2, 4)], Timed(samples))[0]


def run_pass(stamps: Stamps, turns: Sequence[Turn], timed: Timed) -> list[list[Sample]]:
    """The samples of each turn, with a rest behind each."""
    out = []
    for place, turn in enumerate(turns):
        timed.began(place)
        warm = turn.warm_ups(timed.longest_ns)
        samples = _run_turn(stamps, turn, timed.samples, warm)
        out.append(samples)
        unseen = warm + len(turn.before)
        work_ns = sum(sum(sample.spans_ns) for sample in samples) * (1 + unseen / timed.samples)
        time.sleep(timed.rest * work_ns * 1e-9)
    return out


def _run_turn(stamps: Stamps, turn: Turn, samples: int, warm: int) -> list[Sample]:
    import torch

    for execution in turn.before:
        execution()
    late = []
    made = [[torch.cuda.Event(enable_timing=True) for _ in range(turn.events)] for _ in range(samples)]
    stamps.hold(min(LONGEST_HOLD_NS, (samples + warm) * (turn.calls + 1) * ENQUEUE_NS))
    for i in range(warm):
        turn.one(i, lambda: None)
    stamps.put()
    for i, events in enumerate(made):
        left = iter(events)
        turn.one(warm + i, lambda left=left: next(left).record())  # type: ignore[misc]
        late.append(events[0].query())  # has the card come by already?
        stamps.put()
    torch.cuda.synchronize()
    read = stamps.read()
    mhz = [clocks.sm_clock_mhz(read[i], read[i + 1]) for i in range(samples)]
    spans = [[a.elapsed_time(b) * 1e6 for a, b in zip(m, m[1:], strict=False)] for m in made]
    return [Sample(*one) for one in zip(spans, mhz, late, strict=True)]


def times_rows(rows: Sequence[Row], cache: str, reading: clocks.Reading) -> list[dict[str, Any]]:
    """Rows of the table `times` without `run`, each with its flags."""
    out = []
    for row in rows:
        values = row._asdict()
        marks = [HOST_BOUND] if values.pop("host_bound") else []
        marks += filter(None, [clocks.flags(row.clock_mhz, reading)])
        out.append({**values, "cache": cache, "clock": "as-found", "flags": ",".join(marks)})
    return out
