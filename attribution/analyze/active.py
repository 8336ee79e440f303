"""When a role processes: its work less the waits inside it, as disjoint intervals; and how much of time intervals cover.

In: spans.  Out: `Active`, lane by lane; lengths of unions.
Misuse: intervals of a lane are disjoint, those of two lanes are not: a union is no sum.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attribution.analyze.chunks import CHUNK, each, lane_chunks
from attribution.analyze.nesting import LANE, lane_keys, stretches
from attribution.analyze.sweep import sweep
from attribution.errors import DataError

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Active:
    """Disjoint intervals [n] in which a role processes, in order within each lane; `starts` [lanes] is where lanes begin.

    `roles` and `tails.per_sm` both need it, and take it where it is there already.
    """

    run: Int64s
    cta: Int64s
    sm: Int64s
    role: Int64s
    starts: Int64s
    begin_ns: Int64s
    end_ns: Int64s

    @property
    def stops(self) -> Int64s:
        """Where lanes end [lanes]."""
        stops: Int64s = np.r_[self.starts[1:], len(self.begin_ns)]
        return stops


def union_ns(group: Int64s, begin: Int64s, end: Int64s, groups: int) -> Int64s:
    """Of each group 0 .. groups - 1: length of the union of its intervals, ns."""
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]]) if len(group) else np.zeros(0, dtype=np.int64)
    return union_of_lanes(group[starts], starts, begin, end, groups)


def union_of_lanes(owner: Int64s, starts: Int64s, begin: Int64s, end: Int64s, groups: int) -> Int64s:
    """The same, where lane i begins at `starts[i]` and is of group `owner[i]`; no lane is empty."""
    sizes = np.zeros(groups, dtype=np.int64)
    stops = np.r_[starts[1:], len(begin)]
    # Lanes of one group are brought together, so that a piece holds whole groups.
    order = np.argsort(owner, kind="stable")
    ends, owners = np.cumsum((stops - starts)[order]), owner[order]

    def covered(cut: tuple[int, int]) -> Int64s:
        lanes = order[slice(*cut)]
        first, last = (np.concatenate([v[starts[i] : stops[i]] for i in lanes]) for v in (begin, end))
        return _covered(np.repeat(owner[lanes], (stops - starts)[lanes]), first, last, groups)

    cuts = [0]
    while cuts[-1] < len(order):
        # Whole groups until the piece is full.
        stop = np.searchsorted(ends, (ends[cuts[-1] - 1] if cuts[-1] else 0) + CHUNK)
        cuts.append(int(np.searchsorted(owners, owners[min(stop, len(order) - 1)], side="right")))
    for found in each(itertools.pairwise(cuts), covered):
        sizes += found
    return sizes


def _covered(group: Int64s, begin: Int64s, end: Int64s, groups: int) -> Int64s:
    """Union of the intervals of each group, ns: from its first begin to its last end, less the gaps.

    The i-th end in order of time lies before the next begin where all that had begun has ended: there is a gap.
    """
    origin = int(begin.min())
    bits = int(end.max() - origin).bit_length()
    if bits + int(group.max()).bit_length() > 63:
        raise DataError(f"trace: {int(group.max()) + 1} groups over {int(end.max()) - origin} ns are too many at once")
    high = group.astype(np.int64) << bits
    first, last = high + (begin - origin), high + (end - origin)
    for edges in (first, last):
        edges.sort(kind="stable")  # see sweep.py
    same = first[1:] >> bits == last[:-1] >> bits
    gaps = np.where(same, np.maximum(first[1:] - last[:-1], 0), 0)
    ends = np.flatnonzero(np.r_[~same, True])
    owner, since = first[ends] >> bits, np.r_[0, ends[:-1] + 1]
    lost = np.add.reduceat(np.r_[gaps, 0], since)
    out: Int64s = np.zeros(groups, dtype=np.int64)
    out[owner] = last[ends] - first[since] - lost
    return out


def processing(spans: pd.DataFrame) -> Active:
    """When each role of each CTA processes: its work less the waits inside it."""
    columns = {name: spans[name].to_numpy() for name in ("run", "cta", "sm", "begin_ns", "end_ns", "wait")}
    columns["role"] = spans["role"].cat.codes.to_numpy()
    starts = stretches(columns)
    keys = lane_keys({name: columns[name][starts] for name in LANE})
    if not (keys[1:] > keys[:-1]).all():
        # A frame that was sorted or put together elsewhere: bring its lanes together again.
        order = np.argsort(lane_keys(columns), kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        starts = stretches(columns)
    begin, end, wait = columns["begin_ns"], columns["end_ns"], columns["wait"]

    def cut_out(cut: slice) -> tuple[Int64s, Int64s, Int64s]:
        """Intervals of each lane of a piece: how many, begins, ends."""
        lanes = starts[np.searchsorted(starts, cut.start) : np.searchsorted(starts, cut.stop)] - cut.start
        edges = begin[cut], end[cut], wait[cut]
        of, first, last = _follow(*edges, lanes) or _carved(*edges, lanes) or _swept(*edges, lanes)
        return np.diff(np.searchsorted(of, np.r_[lanes, len(edges[0])])), first, last

    parts = each(lane_chunks(starts, len(begin)), cut_out)
    count, first, last = (np.concatenate([np.zeros(0, np.int64), *(part[i] for part in parts)]) for i in range(3))
    there = starts[count > 0]
    lane = {name: columns[name][there] for name in ("run", "cta", "sm", "role")}
    return Active(**lane, starts=(np.cumsum(count) - count)[count > 0], begin_ns=first, end_ns=last)


Pieces = tuple[Int64s, Int64s, Int64s]
"""Index of a span of the same lane, begin and end of each interval; by lane and time."""


def _follow(begin: Int64s, end: Int64s, wait: NDArray[np.bool_], starts: Int64s) -> Pieces | None:
    """Spans that follow each other need no cutting: all work is processing.  Else None."""
    within = begin[1:] < end[:-1]
    within[starts[1:] - 1] = False
    if within.any():
        return None
    work = np.flatnonzero(~wait)
    return work, begin[work], end[work]


def _swept(begin: Int64s, end: Int64s, wait: NDArray[np.bool_], starts: Int64s) -> Pieces:
    """Work without waits for spans that overlap in any way: index of a span of the same lane, begin, end."""
    lane = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(begin)]))
    found = sweep(lane, wait.astype(np.int8), begin, end)
    work = found.only(0)
    return starts[work.group], work.begin_ns, work.begin_ns + work.length_ns


def _carved(begin: Int64s, end: Int64s, wait: NDArray[np.bool_], starts: Int64s) -> Pieces | None:
    """As `_swept`, when work spans are disjoint and so are the waits inside each; else None.

    This is how kernels write (a batch with waits in it), and it needs no sorting.
    """
    place = np.arange(len(wait))
    first = np.zeros(len(wait), dtype=np.int64)
    first[starts] = starts
    first = np.maximum.accumulate(first)
    work = np.maximum.accumulate(np.where(wait, -1, place))
    # A wait is inside the work that began last in its lane, if that has not ended.
    inside = wait & (work >= first) & (begin < end[work])
    kept = np.flatnonzero(~wait | inside)
    wait, work, begin, end, stop = wait[kept], work[kept], begin[kept], end[kept], end[work[kept]]
    after = np.where(wait, end, begin)
    until = stop.copy()
    until[:-1] = np.where(wait[1:], begin[1:], until[:-1])
    new_lane = np.flatnonzero(first[kept[1:]] != first[kept[:-1]])
    apart = begin[1:] >= np.where(wait[1:], after[:-1], stop[:-1])
    apart[new_lane] = True
    if (end > stop).any() or not apart.all():
        return None
    real = np.flatnonzero(until > after)
    return kept[real], after[real], until[real]
