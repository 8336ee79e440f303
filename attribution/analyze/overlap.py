"""What each role does while the others work: processing, waiting for whom, hidden and exposed time, fill and drain.

In: spans of one or many runs.  Out: one row per run and role.
processing = work minus the waits inside it; hidden = processing while another role of the same CTA processes too;
exposed = processing while none does.  Busy fraction = processing / (processing + waiting for ready data).
Misuse: exposed time is not what a mechanism costs, and hidden work that is made faster turns into waiting.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attribution.analyze.spans import lane_keys

Int64s = NDArray[np.int64]


def union_ns(group: Int64s, begin: Int64s, end: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Per group, in order: its key, the length of the union of its intervals, and its last end (ns)."""
    if not len(group):
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, empty
    keys, starts, low, high = merge(group, begin, end)
    sizes = np.add.reduceat(high - low, starts)
    return keys, sizes, np.maximum.reduceat(high, starts)


def merge(group: Int64s, begin: Int64s, end: Int64s) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Disjoint intervals per group: the groups' keys, where each one's intervals start, begins and ends."""
    keys, dense = np.unique(group, return_inverse=True)
    room = int(end.max() - begin.min()) + 1
    offset = dense.astype(np.int64) * room - int(begin.min())
    low, high = begin + offset, end + offset
    order = np.argsort(low, kind="stable")
    low, high = low[order], high[order]
    # Offsets keep groups apart, so one running maximum serves all of them.
    reach = np.maximum.accumulate(high)
    new = np.r_[True, (low[1:] > reach[:-1]) | (low[1:] // room != low[:-1] // room)]
    first = np.flatnonzero(new)
    last = np.r_[first[1:], len(low)] - 1
    owner = low[first] // room
    shift = owner * room - int(begin.min())
    starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    return keys, starts, low[first] - shift, reach[last] - shift


def processing(spans: pd.DataFrame) -> pd.DataFrame:
    """Disjoint intervals in which a role processes: columns run, cta, role, key (its lane), begin_ns, end_ns."""
    key = lane_keys(spans.assign(role=spans["role"].cat.codes))
    begin, end = spans["begin_ns"].to_numpy(), spans["end_ns"].to_numpy()
    wait = spans["wait"].to_numpy()
    flat = (key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & (begin[1:] >= end[:-1]))
    if flat.all():
        return _intervals(key[~wait], begin[~wait], end[~wait])
    # A step function per lane: +1 in work, far below zero in a wait.
    height = np.where(wait, -(1 << 20), 1)
    keys, times, steps = np.r_[key, key], np.r_[begin, end], np.r_[height, -height]
    order = np.lexsort((times, keys))
    keys, times, level = keys[order], times[order], np.cumsum(steps[order])
    on = np.flatnonzero((level[:-1] > 0) & (times[1:] > times[:-1]))
    return _intervals(keys[on], times[on], times[on + 1])


def _intervals(key: Int64s, begin: Int64s, end: Int64s) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "run": (key >> 31).astype(np.int32),
            "cta": ((key >> 7) & 0xFFFFFF).astype(np.int32),
            "role": (key & 127).astype(np.int8),
            "key": key,
            "begin_ns": begin,
            "end_ns": end,
        }
    )


def covered_ns(of: pd.DataFrame, by: pd.DataFrame) -> Int64s:
    """For each interval of `of`, how much of it the intervals of `by` with the same (run, CTA) cover, ns.

    `by` may overlap itself; both have the columns of `processing`.
    """
    if by.empty or of.empty:
        return np.zeros(len(of), dtype=np.int64)
    group = by["key"].to_numpy() >> 7
    keys, starts, low, high = merge(group, by["begin_ns"].to_numpy(), by["end_ns"].to_numpy())
    counts = np.diff(np.r_[starts, len(low)])
    base = int(min(low.min(), of["begin_ns"].min()))
    room = int(max(high.max(), of["end_ns"].max())) - base + 1
    dense = np.repeat(np.arange(len(keys), dtype=np.int64), counts)
    line_low, total = low - base + dense * room, np.r_[0, np.cumsum(high - low)]
    mine = np.searchsorted(keys, of["key"].to_numpy() >> 7)
    known = mine < len(keys)
    known[known] = keys[mine[known]] == (of["key"].to_numpy() >> 7)[known]

    def covered_until(time: Int64s) -> Int64s:
        """Cover of all groups before, and of this one up to `time`."""
        at = time - base + mine * room
        index = np.searchsorted(line_low, at, side="right")
        before = np.maximum(index - 1, 0)
        inside = np.minimum(at, (high - base + dense * room)[before]) - line_low[before]
        return np.where(index > 0, total[before] + np.maximum(inside, 0), 0)

    both = covered_until(of["end_ns"].to_numpy()) - covered_until(of["begin_ns"].to_numpy())
    return np.where(known, both, 0)


def roles(spans: pd.DataFrame) -> pd.DataFrame:
    """One row per run and role, sums over all CTAs in ns.

    Columns: run, role, processing_ns, hidden_ns, exposed_ns, wait_ready_ns (for an upstream role), wait_free_ns (for a
    downstream one), wait_other_ns, busy_fraction, fill_ns, drain_ns (exposed time of the CTA before its last role has
    begun, and after its first role has ended).
    """
    names = list(spans["role"].cat.categories)
    active = processing(spans)
    length = active["end_ns"].to_numpy() - active["begin_ns"].to_numpy()
    hidden = np.zeros(len(active), dtype=np.int64)
    code = active["role"].to_numpy()
    for role in range(len(names)):
        mine = code == role
        if mine.any():
            hidden[mine] = covered_ns(active[mine], active[~mine])
    phase = _phases(active, len(names))
    exposed = length - hidden
    frame = pd.DataFrame(
        {
            "run": active["run"],
            "role": pd.Categorical.from_codes(code, names),
            "processing_ns": length,
            "hidden_ns": hidden,
            "exposed_ns": exposed,
            "fill_ns": np.where(phase == 0, exposed, 0),
            "drain_ns": np.where(phase == 2, exposed, 0),
        }
    )
    out = frame.groupby(["run", "role"], observed=False).sum()
    return out.join(_waits(spans, names), how="left").fillna(0).pipe(_finish)


def _phases(active: pd.DataFrame, count: int) -> NDArray[np.int8]:
    """0 fill, 1 steady, 2 drain: by the middle of each interval within its CTA."""
    group = active["key"].to_numpy() >> 7
    by = active.groupby([pd.Series(group, name="group"), "role"])
    first, last = by["begin_ns"].min().unstack(), by["end_ns"].max().unstack()
    last_begins = first.max(axis=1).reindex(group).to_numpy()
    first_ends = last.min(axis=1).reindex(group).to_numpy()
    middle = (active["begin_ns"].to_numpy() + active["end_ns"].to_numpy()) / 2
    if count == 1:
        return np.ones(len(active), dtype=np.int8)
    return np.select([middle < last_begins, middle > first_ends], [0, 2], 1).astype(np.int8)


def _waits(spans: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Waiting per run and role, by whether the awaited role comes before or after in the pipeline."""
    waits = spans[spans["wait"]]
    place = {name: i for i, name in enumerate(names)}
    awaited = waits["waits_for"].astype(str).map(place).to_numpy(dtype=float)
    own = waits["role"].cat.codes.to_numpy()
    length = (waits["end_ns"] - waits["begin_ns"]).to_numpy()
    frame = pd.DataFrame(
        {
            "run": waits["run"].to_numpy(),
            "role": pd.Categorical.from_codes(own, names),
            "wait_ready_ns": np.where(awaited < own, length, 0),
            "wait_free_ns": np.where(awaited > own, length, 0),
            "wait_other_ns": np.where(np.isnan(awaited) | (awaited == own), length, 0),
        }
    )
    return frame.groupby(["run", "role"], observed=False).sum()


def _finish(out: pd.DataFrame) -> pd.DataFrame:
    out = out.astype(np.int64)
    seen = out["processing_ns"] + out["wait_ready_ns"]
    out["busy_fraction"] = (out["processing_ns"] / seen.where(seen > 0)).astype(float)
    return out.reset_index()
