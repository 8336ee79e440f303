"""What each role does while the others work: processing, waiting for whom, hidden and exposed time, fill and drain.

In: spans of one or many runs.  Out: one row per run and role.
processing = work minus the waits inside it; hidden = processing while another role of the same CTA processes too;
exposed = processing while none does.  Busy fraction = processing / (processing + waiting for ready data).
Misuse: exposed time is not what a mechanism costs, and hidden work that is made faster turns into waiting.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attribution.analyze.spans import LANE, lane_keys, stretches
from attribution.analyze.sweep import sweep

Int64s = NDArray[np.int64]
Active = dict[str, Int64s]
"""What `processing` returns; `roles` and `tails.per_sm` both need it, and take it where it is there already."""
EXPOSURE = ["processing_ns", "hidden_ns", "exposed_ns", "fill_ns", "drain_ns"]
CHUNK = 1 << 17
"""Spans that are swept together: their edges stay in a core's cache (2^17: 0.3 s where one sweep of all took 0.6 s)."""


def union_ns(group: Int64s, begin: Int64s, end: Int64s, groups: int) -> tuple[Int64s, Int64s]:
    """Of each group 0 .. groups - 1: length of the union of its intervals, and their last end (0 without any), ns."""
    sizes, last = np.zeros(groups, dtype=np.int64), np.zeros(groups, dtype=np.int64)
    if not len(group):
        return sizes, last
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    np.maximum.at(last, group[starts], np.maximum.reduceat(end, starts))
    # Stretches of one group, brought together group by group, so that a chunk holds whole groups.
    lengths = np.diff(np.r_[starts, len(group)])
    order = np.argsort(group[starts], kind="stable")
    ends = np.cumsum(lengths[order])
    owners = group[starts][order]
    cut = 0
    while cut < len(order):
        # Whole groups until the chunk is full.
        stop = np.searchsorted(ends, (ends[cut - 1] if cut else 0) + CHUNK)
        stop = int(np.searchsorted(owners, owners[min(stop, len(order) - 1)], side="right"))
        mine = order[cut:stop]
        where = np.concatenate([np.arange(starts[i], starts[i] + lengths[i]) for i in mine])
        found = sweep(group[where], np.zeros(len(where), np.int8), begin[where], end[where])
        sizes += np.bincount(found.group, weights=found.length_ns, minlength=groups).astype(np.int64)
        cut = stop
    return sizes, last


def processing(spans: pd.DataFrame) -> Active:
    """Disjoint intervals in which a role processes, by lane: arrays run, cta, sm, role (code), begin_ns, end_ns."""
    columns = {name: spans[name].to_numpy() for name in ("run", "cta", "sm", "begin_ns", "end_ns", "wait")}
    columns["role"] = spans["role"].cat.codes.to_numpy()
    starts = stretches(columns)
    keys = lane_keys({name: columns[name][starts] for name in LANE})
    if not (keys[1:] > keys[:-1]).all():
        # A frame that was sorted or put together elsewhere: bring its lanes together again.
        order = np.argsort(lane_keys(columns), kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        starts = stretches(columns)
    within = columns["begin_ns"][1:] < columns["end_ns"][:-1]
    within[starts[1:] - 1] = False
    # Spans that follow each other need no cutting: all work is processing.
    if not within.any():
        work = np.flatnonzero(~columns.pop("wait"))
        return {name: values[work] for name, values in columns.items()}
    count = len(within) + 1
    near = np.searchsorted(starts, np.arange(CHUNK, count, CHUNK))
    cuts = np.unique(np.r_[0, starts[near[near < len(starts)]], count])
    # Filled in place, not put together afterwards; spans that overlap in odd ways may leave more intervals than spans.
    out = {name: np.empty(count, values.dtype) for name, values in columns.items() if name != "wait"}
    filled = 0
    for first, last in zip(cuts[:-1], cuts[1:], strict=True):
        here = {name: values[first:last] for name, values in columns.items()}
        lanes = starts[np.searchsorted(starts, first) : np.searchsorted(starts, last)] - first
        carved = _carved(here["begin_ns"], here["end_ns"], here["wait"], lanes)
        of, begin, end = carved if carved is not None else _swept(here["begin_ns"], here["end_ns"], here["wait"], lanes)
        until = filled + len(of)
        if until > len(out["run"]):
            out = {name: np.resize(values, 2 * until) for name, values in out.items()}
        for name in ("run", "cta", "sm", "role"):
            out[name][filled:until] = here[name][of]
        out["begin_ns"][filled:until], out["end_ns"][filled:until] = begin, end
        filled = until
    return {name: values[:filled] for name, values in out.items()}


def _swept(begin: Int64s, end: Int64s, wait: NDArray[np.bool_], starts: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Work without waits for spans that overlap in any way: index of a span of the same lane, begin, end."""
    lane = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(begin)]))
    found = sweep(lane, wait.astype(np.int8), begin, end)
    on = found.only(0)
    return starts[found.group[on]], found.begin_ns[on], found.begin_ns[on] + found.length_ns[on]


def _carved(
    begin: Int64s, end: Int64s, wait: NDArray[np.bool_], starts: Int64s
) -> tuple[Int64s, Int64s, Int64s] | None:
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
    parts = [_exposure({k: v[cut] for k, v in active.items()}, names) for cut in _chunks(active)]
    # Runs of which nothing worked are rows too.
    idle = pd.MultiIndex.from_product([_runs(spans["run"].to_numpy()), names], names=["run", "role"])
    out = pd.concat([*parts, pd.DataFrame(0, index=idle, columns=EXPOSURE)]).groupby(level=[0, 1], sort=False).sum()
    out = out.reindex(idle)
    out = out.join(_waits(spans, names), how="left").fillna(0).astype(np.int64)
    seen = out["processing_ns"] + out["wait_ready_ns"]
    out["busy_fraction"] = (out["processing_ns"] / seen.where(seen > 0)).astype(float)
    return out.reset_index().astype({"role": pd.CategoricalDtype(names)})


def _chunks(active: Active) -> Iterator[slice]:
    """Stretches of whole CTAs of one run, long enough for numpy and short enough for the cache."""
    run, cta = active["run"], active["cta"]
    if not len(run):
        return
    new_run = np.flatnonzero(run[1:] != run[:-1]) + 1
    new_cta = np.flatnonzero(cta[1:] != cta[:-1]) + 1
    near = np.searchsorted(new_cta, np.arange(CHUNK, len(run), CHUNK))
    cuts = np.unique(np.r_[0, new_run, new_cta[near[near < len(new_cta)]], len(run)])
    for first, last in zip(cuts[:-1], cuts[1:], strict=True):
        yield slice(first, last)


def _exposure(active: Active, names: list[str]) -> pd.DataFrame:
    """Processing, hidden and exposed time per role of whole CTAs of one run; indexed by run and role."""
    cta, role = active["cta"] - active["cta"].min(), active["role"]
    length = active["end_ns"] - active["begin_ns"]
    total = np.bincount(role, weights=length, minlength=len(names)).astype(np.int64)
    segments = sweep(cta, role, active["begin_ns"], active["end_ns"])
    fill_until, drain_from = _phases(cta, role, active["begin_ns"], active["end_ns"], len(names))
    exposed, fill, drain = (np.zeros(len(names), dtype=np.int64) for _ in range(3))
    for code in range(len(names)):
        alone = np.flatnonzero(segments.only(code))
        length, begins, where = (
            segments.length_ns[alone],
            segments.begin_ns[alone],
            segments.group[alone],
        )
        exposed[code] = length.sum()
        # Both limits are edges themselves, so no stretch lies across one.
        filling = begins < fill_until[where]
        fill[code] = length @ filling
        drain[code] = length @ (~filling & (begins >= drain_from[where]))
    index = pd.MultiIndex.from_product([active["run"][:1], names], names=["run", "role"])
    values = np.stack([total, total - exposed, exposed, fill, drain], axis=1)
    return pd.DataFrame(values, index=index, columns=EXPOSURE)


def _phases(cta: Int64s, role: Int64s, begin: Int64s, end: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Per CTA: when its last role has begun (fill ends), and when its first role has ended (drain begins), ns."""
    ctas = int(cta.max()) + 1
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    if count < 2:
        return np.full(ctas, low), np.full(ctas, high)
    starts = np.flatnonzero(np.r_[True, (cta[1:] != cta[:-1]) | (role[1:] != role[:-1])])
    lane = cta[starts] * np.int64(count) + role[starts]
    first, last = np.full(ctas * count, high), np.full(ctas * count, low)
    np.minimum.at(first, lane, np.minimum.reduceat(begin, starts))
    np.maximum.at(last, lane, np.maximum.reduceat(end, starts))
    known = (last > low).reshape(ctas, count)
    begun = np.where(known, first.reshape(ctas, count), low).max(axis=1)
    ended = np.where(known, last.reshape(ctas, count), high).min(axis=1)
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
    for first, last in zip(cuts[:-1], cuts[1:], strict=True):
        here = slice(first, last)
        cell = own[here] * np.int16(len(awaited_names)) + awaited[here]
        found = np.bincount(cell, weights=(end[here] - begin[here]) * wait[here], minlength=cells)
        sums[int(run[first])] += found
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
