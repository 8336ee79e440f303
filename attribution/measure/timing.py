"""Samples in scopes event and graph, each with the SM clock it ran at.

In: `Prepared` arms (several copies where the cache is to be cold) and `Stamps`.  Out: rows of the table `times`.
The stream is held before a batch of samples while the host enqueues all of them, so that no sample waits for Python.
Stamps lie outside the events of a sample; two neighbouring samples share one.
Misuse: a stage's time in scope event has events around it that the operator's time has not: they are other samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attribution.measure import clocks
from attribution.measure.prepared import Prepared
from attribution.measure.stamp import Stamps

ENQUEUE_NS = 25_000
"""Host time to enqueue one launch, event or stamp, generously: what the hold has to cover."""
LONGEST_HOLD_NS = 20_000_000
WARM_UPS = 3
"""Executions before the first sample of a batch."""

Row = tuple[str, str, int, float, float]
"""scope, stage, sample, time_ns, clock_mhz."""


def event_samples(arms: Sequence[Prepared], stamps: Stamps, samples: int, stages: bool) -> list[Row]:
    """`samples` eager executions, each copy in turn; with `stages`, events at every stage boundary instead."""
    bounds = arms[0].stage_bounds()
    marks = [first for _, first, _ in bounds] if stages else [0]

    def one(i: int, record: Callable[[], None]) -> None:
        arms[i % len(arms)].run(between=lambda step: record() if step in marks else None)
        record()

    steps = len(arms[0].operator.steps)
    spans, mhz = _samples(stamps, samples, len(marks) + 1, steps + len(marks) + 1, one, len(arms))
    if not stages:
        return [("event", "operator", i, span[0], mhz[i]) for i, span in enumerate(spans)]
    rows: list[Row] = []
    for i, span in enumerate(spans):
        total: dict[str, float] = {}
        for (stage, _, _), ns in zip(bounds, span, strict=True):
            total[stage] = total.get(stage, 0.0) + ns
        rows += [("event", stage, i, ns, mhz[i]) for stage, ns in total.items()]
    return rows


def graph_samples(arms: Sequence[Prepared], stamps: Stamps, samples: int, stage: str) -> list[Row]:
    """`samples` replays of the captured graph, each copy in turn."""
    graphs = [arm.graph(stage) for arm in arms]

    def one(i: int, record: Callable[[], None]) -> None:
        record()
        graphs[i % len(graphs)].replay()
        record()

    spans, mhz = _samples(stamps, samples, 2, 4, one, len(arms))
    return [("graph", stage, i, span[0], mhz[i]) for i, span in enumerate(spans)]


def _samples(
    stamps: Stamps,
    samples: int,
    events: int,
    calls: int,
    one: Callable[[int, Callable[[], None]], None],
    copies: int,
) -> tuple[list[list[float]], list[float]]:
    """Spans between neighbouring events of each sample, ns, and each sample's SM clock, MHz."""
    import torch

    # Behind the hold and before the first sample: an idle card's first executions are slower (seen: by 5 % at 10 us).
    # All copies once and in order, so that a cold protocol's first sample is cold as well.
    warm = copies if copies > 1 else WARM_UPS
    made = [[torch.cuda.Event(enable_timing=True) for _ in range(events)] for _ in range(samples)]
    stamps.hold(min(LONGEST_HOLD_NS, (samples + warm) * (calls + 1) * ENQUEUE_NS))
    for i in range(warm):
        one(i, lambda: None)
    first = warm % copies
    stamps.put()
    for i, mine in enumerate(made):
        left = iter(mine)
        one(first + i, lambda left=left: next(left).record())  # type: ignore[misc]
        stamps.put()
    torch.cuda.synchronize()
    read = stamps.read()
    mhz = [clocks.sm_clock_mhz(read[i], read[i + 1]) for i in range(samples)]
    spans = [[a.elapsed_time(b) * 1e6 for a, b in zip(m, m[1:], strict=False)] for m in made]
    return spans, mhz


def frame(rows: Sequence[Row], cache: str, reading: clocks.Reading) -> Any:
    """Rows as the table `times`, each with its flags."""
    import pandas as pd

    out = pd.DataFrame(rows, columns=["scope", "stage", "sample", "time_ns", "clock_mhz"])
    out["flags"] = [clocks.flags(mhz, reading) for mhz in out["clock_mhz"]]
    return out.assign(cache=cache, clock="as-found")
