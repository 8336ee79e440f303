"""Facts about intervals on a device: union, overlap, durations that cannot be, launches that are missing.

In: int64 begin and end in ns.  Out: int64 ns, flags, or an error for a count that is not the expected one.
Misuse: a sum of durations is not busy time where kernels overlap (programmatic dependent launch, streams).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from attribution.errors import DataError
from attribution.ingest.names import matches


def union_ns(begin: np.ndarray, end: np.ndarray) -> int:
    """Length of the union of intervals [n], ns: [(0,10),(2,4),(3,9),(12,15)] is 13."""
    if not len(begin):
        return 0
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum(end[order], begin[order])
    reach = np.maximum.accumulate(end)
    fresh = np.concatenate([[begin[0]], np.maximum(begin[1:], reach[:-1])])
    return int(np.maximum(end - fresh, 0).sum())


def tick_ns(stamps: np.ndarray) -> int:
    """Resolution of the stamps: their greatest common divisor, at most 1000 ns; 1 for none."""
    spread = np.diff(np.unique(stamps))
    return int(min(1000, np.gcd.reduce(spread))) if len(spread) else 1


def impossible(kernels: pd.DataFrame) -> np.ndarray:
    """bool [kernels]: one that begins before a successor on its stream and ends after it did.

    Work on one stream runs in order, so such a duration is not the kernel's.  Equal stamps, and ends within one tick,
    are not held against a kernel; nor are kernels of one launch (a graph runs its branches side by side).  Overlap of
    neighbours alone is programmatic dependent launch and is possible.
    """
    out = np.zeros(len(kernels), bool)
    begin_all, end_all = kernels["begin_ns"].to_numpy(), kernels["end_ns"].to_numpy()
    tick = tick_ns(np.concatenate([begin_all, end_all]))
    keys = ["process", "device", "context", "stream"]
    for group in kernels.groupby(keys, observed=True, sort=False).indices.values():
        rows = np.asarray(group)[np.argsort(begin_all[group], kind="stable")]
        begin, end = begin_all[rows], end_all[rows]
        # Earliest end among those that begin later: suffix minimum, read at the first later begin.
        earliest = np.append(np.minimum.accumulate(end[::-1])[::-1], np.iinfo(np.int64).max)
        later = np.searchsorted(begin, begin, side="right")
        suspect = earliest[later] < end - tick
        out[rows[suspect]] = True
    _acquit_graphs(kernels, out)
    return out


def _acquit_graphs(kernels: pd.DataFrame, flagged: np.ndarray) -> None:
    """Kernels that share one launching call (a graph) may overlap in any way."""
    correlation = kernels["correlation"].to_numpy()
    shared = (correlation >= 0) & kernels.duplicated(["process", "correlation"], keep=False).to_numpy()
    flagged &= ~(shared | (kernels["graph"].to_numpy() >= 0))


def same_stream_overlaps(kernels: pd.DataFrame) -> tuple[int, int]:
    """(pairs of neighbours on one stream that overlap, their overlap in ns)."""
    pairs = overlap = 0
    for rows in kernels.groupby(["device", "stream"], observed=True, sort=False).indices.values():
        begin = kernels["begin_ns"].to_numpy()[rows]
        end = kernels["end_ns"].to_numpy()[rows]
        order = np.argsort(begin, kind="stable")
        over = end[order][:-1] - begin[order][1:]
        pairs += int((over > 0).sum())
        overlap += int(over[over > 0].sum())
    return pairs, overlap


def expect_launches(kernels: pd.DataFrame, kernel: str, expected: int) -> pd.DataFrame:
    """The rows of one kernel, which must be `expected` many.

    `kernel` is the whole function name or signature.  Raises DataError for any other number, zero above all: a kernel
    that was not seen has no time, least of all 0.
    """
    names = kernels["kernel_name"].astype(str)
    rows = kernels[[matches(name, kernel) for name in names]]
    if len(rows) != expected or not len(rows):
        others = ", ".join(sorted(set(names))[:5]) or "no kernel at all"
        raise DataError(
            f"kernel {kernel!r}: {expected} launches expected, {len(rows)} seen; the file has {others}; "
            "profile the whole run again"
        )
    return rows.reset_index(drop=True)
