"""Samples in scopes event and graph, each with the SM clock it ran at: the arms of a round right behind one another.

In: `Prepared` arms (several copies of each where the cache is to be cold), in the order of the round; `Stamps`.
Out: for each arm rows of the table `times`.
Two arms are compared by what they take at nearly the same moment: in each scope and stage they follow one another without a
gap, because a card at its power limit changes its clock by percents within a second.  The stream is held before such a pass
while the host enqueues all of it, so that no sample waits for Python.  Stamps lie outside the events of a sample.
Misuse: a stage's time in scope event has events around it that the operator's time has not: they are other samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from attribution.measure import clocks
from attribution.measure.prepared import Prepared
from attribution.measure.stamp import Stamps

ENQUEUE_NS = 25_000
"""Host time to enqueue one launch, event or stamp, generously: what the hold has to cover."""
LONGEST_HOLD_NS = 20_000_000
FIRST_WARM_UPS, WARM_UPS = 3, 1
"""Executions before the first sample of a pass, and before those of each arm behind it.

An idle card's first executions are slower (seen: by 5 % at 10 us); each sample follows an execution of its own arm.
"""
POLL_S = 0.0005

Row = tuple[str, str, int, float, float]
"""scope, stage, sample, time_ns, clock_mhz."""
Began = Callable[[int], None]
"""began(i): arm i is next."""
One = Callable[[int, Callable[[], None]], None]
"""one(i, record) enqueues execution i, and record() at each of its events."""


@dataclass(frozen=True)
class Turn:
    """One arm in a pass: `events` a sample, about `calls` things to enqueue for each execution, `copies` to rotate over."""

    one: One
    events: int
    calls: int
    copies: int = 1

    def warm_ups(self, first: bool) -> int:
        """All copies once and in order, so that a cold protocol's first sample is cold as well."""
        return self.copies if self.copies > 1 else FIRST_WARM_UPS if first else WARM_UPS


def event_samples(
    arms: Sequence[Sequence[Prepared]], stamps: Stamps, samples: int, stages: bool, began: Began
) -> list[list[Row]]:
    """`samples` eager executions of each arm, its copies in turn; with `stages`, events at every stage boundary instead."""
    bounds = [copies[0].stage_bounds() for copies in arms]
    turns = [
        _eager(copies, [b[1] for b in bound] if stages else [0]) for copies, bound in zip(arms, bounds, strict=True)
    ]
    out = []
    for (spans, mhz), bound in zip(run_pass(stamps, turns, samples, began), bounds, strict=True):
        rows: list[Row] = []
        for i, span in enumerate(spans):
            total: dict[str, float] = {}
            for stage, ns in zip([b[0] for b in bound] if stages else ["operator"], span, strict=True):
                total[stage] = total.get(stage, 0.0) + ns
            rows += [("event", stage, i, ns, mhz[i]) for stage, ns in total.items()]
        out.append(rows)
    return out


def _eager(copies: Sequence[Prepared], marks: Sequence[int]) -> Turn:
    def one(i: int, record: Callable[[], None]) -> None:
        copies[i % len(copies)].run(between=lambda step: record() if step in marks else None)
        record()

    return Turn(one, len(marks) + 1, len(copies[0].operator.steps) + len(marks) + 1, len(copies))


def graph_samples(
    arms: Sequence[Sequence[Prepared]], stamps: Stamps, samples: int, stages: Sequence[str], began: Began
) -> list[list[Row]]:
    """`samples` replays of the graph of each arm's stage, its copies in turn."""
    turns = [_replayed(copies, stage) for copies, stage in zip(arms, stages, strict=True)]
    found = run_pass(stamps, turns, samples, began)
    return [
        [("graph", stage, i, span[0], mhz[i]) for i, span in enumerate(spans)]
        for (spans, mhz), stage in zip(found, stages, strict=True)
    ]


def _replayed(copies: Sequence[Prepared], stage: str) -> Turn:
    replays = [one.graph(stage) for one in copies]

    def one(i: int, record: Callable[[], None]) -> None:
        record()
        replays[i % len(replays)]()
        record()

    return Turn(one, 2, 4, len(copies))


def call_times_ns(function: Callable[[], Any], stamps: Stamps, samples: int) -> list[float]:
    """Times of a torch call between events, ns."""

    def one(i: int, record: Callable[[], None]) -> None:
        record()
        function()
        record()

    ((spans, _),) = run_pass(stamps, [Turn(one, 2, 4)], samples, lambda i: None)
    return [span[0] for span in spans]


def run_pass(
    stamps: Stamps, turns: Sequence[Turn], samples: int, began: Began
) -> list[tuple[list[list[float]], list[float]]]:
    """For each turn the spans between neighbouring events of its samples, ns, and each sample's SM clock, MHz."""
    import torch

    made = [[[torch.cuda.Event(enable_timing=True) for _ in range(t.events)] for _ in range(samples)] for t in turns]
    stamps.hold(min(LONGEST_HOLD_NS, sum((samples + FIRST_WARM_UPS) * (t.calls + 1) for t in turns) * ENQUEUE_NS))
    for place, (turn, mine) in enumerate(zip(turns, made, strict=True)):
        warm = turn.warm_ups(first=place == 0)
        for i in range(warm):
            turn.one(i, lambda: None)
        stamps.put()
        for i, events in enumerate(mine):
            left = iter(events)
            turn.one(warm + i, lambda left=left: next(left).record())  # type: ignore[misc]
            stamps.put()
    for place, mine in enumerate(made):
        began(place)
        while not mine[-1][-1].query():
            time.sleep(POLL_S)
    torch.cuda.synchronize()
    read = stamps.read()
    out = []
    for place, mine in enumerate(made):
        at = place * (samples + 1)
        mhz = [clocks.sm_clock_mhz(read[at + i], read[at + i + 1]) for i in range(samples)]
        out.append(([[a.elapsed_time(b) * 1e6 for a, b in zip(m, m[1:], strict=False)] for m in mine], mhz))
    return out


def frame(rows: Sequence[Row], cache: str, reading: clocks.Reading) -> Any:
    """Rows as the table `times`, each with its flags."""
    import pandas as pd

    out = pd.DataFrame(rows, columns=["scope", "stage", "sample", "time_ns", "clock_mhz"])
    out["flags"] = [clocks.flags(mhz, reading) for mhz in out["clock_mhz"]]
    return out.assign(cache=cache, clock="as-found")
