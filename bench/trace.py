"""Ten million trace events through spans, tails and overlap, against pandas reading the same parquet file."""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from attribution.analyze import overlap, spans, tails
from attribution.declare import kernel_names, load_kernel, shipped_root
from attribution.recording import write_tables
from attribution.tables import conform

EVENTS, CTAS, SMS = 10_000_000, 264, 132


def _events(roles: int, work: np.ndarray, wait: np.ndarray) -> pd.DataFrame:
    """Flat lanes in which a wait and a work span alternate; exponential-like integer durations."""
    lanes = CTAS * roles
    per_lane = EVENTS // lanes // 4 * 4
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.integers(1, 400, (lanes, per_lane)), axis=1)
    place = np.arange(per_lane)
    role = np.tile(np.repeat(np.arange(roles), per_lane), CTAS)
    which = np.tile((place // 2) % 2, lanes)
    frame = pd.DataFrame(
        {
            "run": 0,
            "cta": np.repeat(np.arange(CTAS), roles * per_lane),
            "role": role,
            "event": np.where(which == 0, wait[role], work[role]),
            "edge": np.tile(place % 2, lanes),
            "arg": np.tile(place, lanes),
            "time_ns": times.ravel(),
        }
    )
    return conform("events", frame)


def ratios() -> list[tuple[str, float, str]]:
    """(what, ratio, target): median of 5, reading excluded; and the peak of memory in GiB."""
    kernel = load_kernel(shipped_root(), "index_topk")
    assert "index_topk" in kernel_names(shipped_root())
    role_of = {name: i for i, name in enumerate(kernel.roles)}
    codes = [(role_of[e.role], i, e.waits_for is not None) for i, e in enumerate(kernel.events)]
    work, wait = (
        np.array([next(i for r, i, w in codes if r == role and w == kind) for role in range(len(kernel.roles))])
        for kind in (False, True)
    )
    events = _events(len(kernel.roles), work, wait)
    per_lane = len(events) // (CTAS * len(kernel.roles))
    index = pd.MultiIndex.from_product([range(CTAS), range(len(kernel.roles))], names=["cta", "role"])
    lanes = index.to_frame(index=False).assign(run=0, attempts=per_lane, capacity=per_lane)
    lanes["sm_begin"] = lanes["sm_end"] = lanes["cta"] % SMS
    rows = pd.DataFrame({"run": 0, "cta": range(CTAS), "sm": np.arange(CTAS) % SMS, "rows": 4})
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder) / "rec", "ingest", {"events": events}, {})
        times, reads = [], []
        for _ in range(5):
            begin = time.perf_counter()
            pd.read_parquet(Path(folder) / "rec" / "events.parquet")
            middle = time.perf_counter()
            found = spans.spans(events, lanes, kernel.roles, kernel.events)
            tails.per_sm(found, rows, SMS)
            overlap.roles(found)
            times.append(time.perf_counter() - middle)
            reads.append(middle - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    what = f"spans + tails + overlap of {len(events) / 1e6:.1f} million events / pandas.read_parquet of them"
    return [
        (what, statistics.median(times) / statistics.median(reads), "<= 5"),
        ("peak memory of that, GiB", peak, "<= 4"),
    ]
