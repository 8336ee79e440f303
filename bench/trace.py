"""Ten million trace events through spans, tails and overlap, against pandas reading the same parquet file.

Twice: lanes in which waits and work alternate, and lanes whose work spans hold three waits each, which must be cut out.
"""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from attribution.analyze import active, overlap, spans, tails
from attribution.declare import Kernel
from attribution.load import load_kernel, shipped_root
from attribution.recording import write_tables
from attribution.tables import conform

EVENTS, CTAS, SMS = 10_000_000, 264, 132


def _events(roles: int, work: np.ndarray, wait: np.ndarray, nested: bool) -> pd.DataFrame:
    """Lanes of waits and work, one behind the other or waits inside work; exponential-like integer durations."""
    lanes = CTAS * roles
    per_lane = EVENTS // lanes // 8 * 8
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.integers(1, 400, (lanes, per_lane)), axis=1)
    place = np.arange(per_lane)
    role = np.tile(np.repeat(np.arange(roles), per_lane), CTAS)
    at = place % 8
    waits = (at % 7 > 0) if nested else (place // 2) % 2 == 0
    edge = np.where(at % 7 > 0, (at - 1) % 2, at // 7) if nested else place % 2
    frame = pd.DataFrame(
        {
            "run": 0,
            "cta": np.repeat(np.arange(CTAS), roles * per_lane),
            "role": role,
            "event": np.where(np.tile(waits, lanes), wait[role], work[role]),
            "edge": np.tile(edge, lanes),
            "arg": np.tile(place, lanes),
            "time_ns": times.ravel(),
        }
    )
    return conform("events", frame)


def ratios() -> Iterator[tuple[str, float, str]]:
    """(what, ratio, target): median of 5, reading excluded; and the peak of memory in GiB."""
    kernel = load_kernel(shipped_root(), "index_topk")
    role_of = {name: i for i, name in enumerate(kernel.roles)}
    codes = [(role_of[e.role], i, e.waits_for is not None) for i, e in enumerate(kernel.events)]
    work, wait = (
        np.array([next(i for r, i, w in codes if r == role and w == kind) for role in range(len(kernel.roles))])
        for kind in (False, True)
    )
    for nested in (False, True):
        events = _events(len(kernel.roles), work, wait, nested)
        what = f"spans + tails + overlap of {len(events) / 1e6:.1f} million events, waits {'inside' if nested else 'beside'} work"
        yield f"{what} / pandas.read_parquet of them", _ratio(kernel, events), "<= 5"
    yield "peak memory of that, GiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, "<= 4"


def _ratio(kernel: Kernel, events: pd.DataFrame) -> float:
    per_lane = len(events) // (CTAS * len(kernel.roles))
    index = pd.MultiIndex.from_product([range(CTAS), range(len(kernel.roles))], names=["cta", "role"])
    lanes = index.to_frame(index=False).assign(run=0, attempts=per_lane, capacity=per_lane)
    lanes["sm_begin"] = lanes["sm_end"] = lanes["cta"] % SMS
    lanes = conform("lanes", lanes)
    rows = conform("rows", pd.DataFrame({"run": 0, "cta": range(CTAS), "sm": np.arange(CTAS) % SMS, "rows": 4}))
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder) / "rec", "ingest", {"events": events}, {})
        times, reads = [], []
        for _ in range(5):
            begin = time.perf_counter()
            pd.read_parquet(Path(folder) / "rec" / "events.parquet")
            middle = time.perf_counter()
            found = spans.spans(events, lanes, kernel.roles, kernel.events)
            when = active.processing(found)
            tails.per_sm(found, rows, SMS, when)
            overlap.roles(found, when)
            times.append(time.perf_counter() - middle)
            reads.append(middle - begin)
    return statistics.median(times) / statistics.median(reads)
