"""What each role does while the others work: processing, waiting for whom, hidden and exposed time, fill and drain.

In: spans of one or many runs.  Out: one row per run and role.
processing = work minus the waits inside it; hidden = processing while another role of the same CTA processes too;
exposed = processing while none does.  Busy fraction = processing / (processing + waiting for ready data).
Misuse: exposed time is not what a mechanism costs, and hidden work that is made faster turns into waiting.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attribution.analyze.chunks import CHUNK, each, lane_chunks
from attribution.analyze.spans import LANE, lane_keys, stretches
from attribution.analyze.sweep import sweep
from attribution.errors import DataError

Int64s = NDArray[np.int64]
EXPOSURE = ["processing_ns", "hidden_ns", "exposed_ns", "fill_ns", "drain_ns"]


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


def roles(spans: pd.DataFrame, active: Active | None = None) -> pd.DataFrame:
    """One row per run and role, sums over all CTAs in ns.  active: `processing(spans)`, where it is known.

    Columns: run, role, processing_ns, hidden_ns, exposed_ns, fill_ns and drain_ns (the exposed time of a CTA before its
    last role has begun, and after its first role has ended), wait_ready_ns (for an upstream role), wait_free_ns (for a
    downstream one), wait_other_ns, busy_fraction.
    """
    names = list(spans["role"].cat.categories)
    active = processing(spans) if active is None else active
    # Runs of which nothing worked are rows too.
    runs = _runs(spans["run"].to_numpy())
    sums = {int(run): np.zeros((len(names), len(EXPOSURE)), dtype=np.int64) for run in runs}
    for run, found in each(_pieces(active), lambda lanes: _exposure(active, lanes, len(names))):
        sums[run] += found
    index = pd.MultiIndex.from_product([runs, names], names=["run", "role"])
    out = pd.DataFrame(np.concatenate(list(sums.values())) if sums else [], index=index, columns=EXPOSURE)
    out = out.join(_waits(spans, names), how="left").fillna(0).astype(np.int64)
    seen = out["processing_ns"] + out["wait_ready_ns"]
    out["busy_fraction"] = (out["processing_ns"] / seen.where(seen > 0)).astype(float)
    return out.reset_index().astype({"role": pd.CategoricalDtype(names)})


def _pieces(active: Active) -> Iterator[slice]:
    """Lanes of whole CTAs of one run, long enough for numpy and short enough for the cache."""
    run, cta, starts = active.run, active.cta, active.starts
    if not len(run):
        return
    new_run = np.flatnonzero(run[1:] != run[:-1]) + 1
    new_cta = np.flatnonzero((cta[1:] != cta[:-1]) | (run[1:] != run[:-1])) + 1
    near = np.searchsorted(starts[new_cta], np.arange(CHUNK, len(active.begin_ns), CHUNK))
    cuts = np.unique(np.r_[0, new_run, new_cta[near[near < len(new_cta)]], len(run)])
    for first, last in itertools.pairwise(cuts.tolist()):
        yield slice(first, last)


def _exposure(active: Active, lanes: slice, count: int) -> tuple[int, Int64s]:
    """Run and EXPOSURE [roles, 5] of some lanes, whole CTAs of one run."""
    cta, role = active.cta[lanes] - active.cta[lanes].min(), active.role[lanes]
    sizes, here = (active.stops - active.starts)[lanes], slice(active.starts[lanes][0], active.stops[lanes][-1])
    begin, end = active.begin_ns[here], active.end_ns[here]
    segments = sweep(np.repeat(cta, sizes), np.repeat(role, sizes), begin, end)
    starts = np.cumsum(sizes) - sizes
    fill_until, drain_from = _phases(cta, begin[starts], end[starts + sizes - 1], count)
    worked = np.bincount(role, np.add.reduceat(end - begin, starts), count).astype(np.int64)
    out = np.zeros((count, len(EXPOSURE)), dtype=np.int64)
    for code in range(count):
        alone = segments.only(code)
        begins, exposed = alone.begin_ns, alone.length_ns.sum()
        # Both limits are edges themselves, so no stretch lies across one.
        filling = begins < fill_until[alone.group]
        draining = ~filling & (begins >= drain_from[alone.group])
        parts = alone.length_ns @ filling, alone.length_ns @ draining
        out[code] = worked[code], worked[code] - exposed, exposed, *parts
    return int(active.run[lanes][0]), out


def _phases(cta: Int64s, begin: Int64s, end: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Per CTA, from its lanes' first begins and last ends, ns: when its last role has begun (the fill ends), and when its first
    role has ended (the drain begins).
    """
    ctas = int(cta.max()) + 1
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    if count < 2:
        return np.full(ctas, low), np.full(ctas, high)
    begun, ended = np.full(ctas, low), np.full(ctas, high)
    np.maximum.at(begun, cta, begin)
    np.minimum.at(ended, cta, end)
    return begun, ended


def _runs(run: NDArray[np.integer]) -> NDArray[np.integer]:
    """The runs that there are; looked up where the number changes, for hashing ten million of them takes 0.15 s."""
    return np.unique(run[np.r_[True, run[1:] != run[:-1]]]) if len(run) else run


def _waits(spans: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Waiting per run and role, by whether the awaited role comes before or after it in the pipeline."""
    awaited_names = list(spans["waits_for"].cat.categories)
    place = [names.index(n) if n in names else -1 for n in awaited_names]
    own, awaited = (spans[c].cat.codes.to_numpy() for c in ("role", "waits_for"))
    begin, end, wait, run = (spans[c].to_numpy() for c in ("begin_ns", "end_ns", "wait", "run"))
    cells = len(names) * len(awaited_names)
    sums = {int(number): np.zeros(cells) for number in _runs(run)}
    new_run = np.flatnonzero(run[1:] != run[:-1]) + 1
    cuts = np.unique(np.r_[np.arange(0, len(run), CHUNK), new_run, len(run)])

    def waited(here: slice) -> tuple[int, NDArray[Any]]:
        cell = own[here] * np.int16(len(awaited_names)) + awaited[here]
        return int(run[here.start]), np.bincount(cell, weights=(end[here] - begin[here]) * wait[here], minlength=cells)

    for number, found in each(map(slice, cuts[:-1], cuts[1:]), waited):
        sums[number] += found
    rows = []
    for number, total in sums.items():
        table = total.reshape(len(names), len(awaited_names))
        for role, name in enumerate(names):
            kinds = [0.0, 0.0, 0.0]
            for code, of in enumerate(place):
                kinds[2 if of in (-1, role) else int(of > role)] += table[role, code]
            rows.append((number, name, *kinds))
    columns = ["run", "role", "wait_ready_ns", "wait_free_ns", "wait_other_ns"]
    return pd.DataFrame(rows, columns=columns).set_index(["run", "role"])
