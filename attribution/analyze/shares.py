"""A named range's share of the work of a GPU: its kernels' time over that of all kernels that are no communication.

In: tables `kernels` and `ranges` of one profiler file (Chrome trace or nsys), a rule of `attribution.ingest.ranges`.
Out: `Share`.  Each kernel belongs to the innermost range that owns it under the rule, or to none; the time of kernels that no
range can be given is the width of the share, not left out.
Misuse: this is a share of summed kernel time; elapsed time has gaps, overlap and communication besides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from attribution.errors import DataError, InputError
from attribution.ingest.names import kernel_function
from attribution.ingest.ranges import NO_LAUNCH, owners
from attribution.ingest.timeline import union_ns

COMMUNICATION = ("nccl", "nvshmem", "rccl")
"""A kernel whose function's name begins so moves data between GPUs; it waits for other GPUs, so its time is not work."""


@dataclass(frozen=True)
class Share:
    """Times in ns, summed over kernels.  `low_pct` to `high_pct`: without and with the kernels that no range could be given.

    `busy_ns` is the union of all kernels' intervals, `span_ns` from the first begin to the last end.
    """

    part: str
    rule: str
    share_pct: float
    low_pct: float
    high_pct: float
    part_ns: int
    whole_ns: int
    unplaced_ns: int
    communication_ns: int
    busy_ns: int
    span_ns: int
    part_kernels: int
    kernels: int

    def __str__(self) -> str:
        return (
            f"{self.part}: {self.share_pct:.2f} % [{self.low_pct:.2f}, {self.high_pct:.2f}] of {self.whole_ns / 1e6:.3f} ms in "
            f"{self.kernels} kernels that are no communication, rule {self.rule}"
        )


def range_share(kernels: pd.DataFrame, ranges: pd.DataFrame, part: str, rule: str) -> Share:
    """Share of the ranges called `part`.  Raises InputError for a name or rule that is not there, DataError without kernels."""
    names = sorted(set(ranges["range_name"].astype(str)))
    if part not in names:
        raise InputError(f"no range {part!r}; the file has: {', '.join(names[:12]) or 'no range at all'}")
    if kernels.empty:
        raise DataError("no kernel in the file: a share of GPU work needs a trace of a GPU")
    owner = owners(kernels, ranges, rule)
    communication = np.array([_communicates(n) for n in kernels["kernel_name"].astype(str)], bool)
    duration = kernels["dur_ns"].to_numpy()
    # The range that owns a kernel is the innermost: what is nested in the part belongs to the part.
    inside = _inside(ranges, part)
    mine = np.isin(owner["range"].to_numpy(), ranges["range"].to_numpy()[inside]) & ~communication
    unplaced = ((owner["why"] == NO_LAUNCH) | owner["why"].str.startswith("in two")).to_numpy(bool) & ~communication

    def total(rows: np.ndarray) -> int:
        return int(duration[rows].sum())

    part_ns, whole_ns, unplaced_ns = total(mine), total(~communication), total(unplaced)
    if not whole_ns:
        raise DataError("every kernel in the file is communication: there is no work to have a share of")
    begin, end = kernels["begin_ns"].to_numpy(), kernels["end_ns"].to_numpy()
    share = 100 * part_ns / whole_ns
    return Share(
        part=part, rule=rule, share_pct=share, low_pct=share, high_pct=100 * (part_ns + unplaced_ns) / whole_ns,
        part_ns=part_ns, whole_ns=whole_ns, unplaced_ns=unplaced_ns, communication_ns=total(communication),
        busy_ns=union_ns(begin, end), span_ns=int(end.max() - begin.min()), part_kernels=int(mine.sum()),
        kernels=int((~communication).sum()),
    )  # fmt: skip


def share_by_request(
    kernels: pd.DataFrame, ranges: pd.DataFrame, part: str, rule: str, request: str = "request"
) -> list[Share]:
    """A `Share` for each range called `request`: of the kernels launched inside it.  Raises InputError, DataError."""
    wholes = ranges[ranges["range_name"].astype(str) == request]
    if wholes.empty:
        raise InputError(f"no range {request!r} in the trace: profile whole requests")
    launched = kernels["launched"].to_numpy(bool)
    at = np.where(launched, kernels["launch_begin_ns"].to_numpy(), kernels["begin_ns"].to_numpy())
    out = []
    for begin, end in zip(wholes["begin_ns"], wholes["end_ns"], strict=True):
        out.append(range_share(kernels[(at >= begin) & (at <= end)].reset_index(drop=True), ranges, part, rule))
    return out


def _inside(ranges: pd.DataFrame, part: str) -> np.ndarray:
    """bool [ranges]: called `part`, or within one that is, on the same thread."""
    named = (ranges["range_name"].astype(str) == part).to_numpy()
    out = named.copy()
    for thread in ranges["thread"].astype(str).unique():
        here = (ranges["thread"].astype(str) == thread).to_numpy()
        begin, end = ranges["begin_ns"].to_numpy(), ranges["end_ns"].to_numpy()
        order = np.argsort(begin[here & named], kind="stable")
        begins = begin[here & named][order]
        reach = np.maximum.accumulate(end[here & named][order]) if len(order) else begins
        at = np.searchsorted(begins, begin, side="right") - 1
        inside = (at >= 0) & here
        out |= inside & (end <= np.where(inside, reach[np.maximum(at, 0)] if len(reach) else -1, -1))
    return out


def _communicates(name: str) -> bool:
    return kernel_function(name).lower().startswith(COMMUNICATION)
