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

from attribution.analyze.spans import LANE, lane_keys
from attribution.analyze.sweep import sweep

Int64s = NDArray[np.int64]


def union_ns(group: Int64s, begin: Int64s, end: Int64s, groups: int) -> tuple[Int64s, Int64s]:
    """Of each group 0 .. groups - 1: length of the union of its intervals, and their last end (0 without any), ns."""
    found = sweep(group, np.zeros(len(group), np.int8), begin, end)
    sizes = np.bincount(found.group, weights=found.length_ns, minlength=groups).astype(np.int64)
    last = np.zeros(groups, dtype=np.int64)
    if len(group):
        starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
        np.maximum.at(last, group[starts], np.maximum.reduceat(end, starts))
    return sizes, last


def processing(spans: pd.DataFrame) -> dict[str, NDArray[np.integer]]:
    """Disjoint intervals in which a role processes: arrays run, cta, role (code), begin_ns, end_ns."""
    columns = {name: spans[name].to_numpy() for name in ("run", "cta", "begin_ns", "end_ns")}
    columns["role"] = spans["role"].cat.codes.to_numpy()
    wait = spans["wait"].to_numpy()
    same = np.ones(max(len(wait) - 1, 0), dtype=bool)
    for name in LANE:
        same &= columns[name][1:] == columns[name][:-1]
    # Spans that follow each other need no sorting: all work is processing.
    if not (same & (columns["begin_ns"][1:] < columns["end_ns"][:-1])).any():
        work = np.flatnonzero(~wait)
        return {name: values[work] for name, values in columns.items()}
    key = lane_keys(columns)
    keys, dense = np.unique(key, return_inverse=True)
    found = sweep(dense, wait.astype(np.int8), columns["begin_ns"], columns["end_ns"])
    on = found.only(0)
    owner = keys[found.group[on]]
    begin = found.begin_ns[on]
    return {
        "run": owner >> 31,
        "cta": (owner >> 7) & 0xFFFFFF,
        "role": owner & 127,
        "begin_ns": begin,
        "end_ns": begin + found.length_ns[on],
    }


def roles(spans: pd.DataFrame) -> pd.DataFrame:
    """One row per run and role, sums over all CTAs in ns.

    Columns: run, role, processing_ns, hidden_ns, exposed_ns, fill_ns and drain_ns (the exposed time of a CTA before its
    last role has begun, and after its first role has ended), wait_ready_ns (for an upstream role), wait_free_ns (for a
    downstream one), wait_other_ns, busy_fraction.
    """
    names = list(spans["role"].cat.categories)
    parts = []
    active = processing(spans)
    for run in np.unique(spans["run"].to_numpy()):
        mine = active if (active["run"] == run).all() else {k: v[active["run"] == run] for k, v in active.items()}
        parts.append(_exposure(mine, names).assign(run=run))
    if not parts:
        parts = [_exposure(active, names).assign(run=np.zeros(0))]
    out = pd.concat(parts).set_index(["run", "role"])
    out = out.join(_waits(spans, names), how="left").fillna(0).astype(np.int64)
    seen = out["processing_ns"] + out["wait_ready_ns"]
    out["busy_fraction"] = (out["processing_ns"] / seen.where(seen > 0)).astype(float)
    return out.reset_index().astype({"role": pd.CategoricalDtype(names)})


def _exposure(active: dict[str, NDArray[np.integer]], names: list[str]) -> pd.DataFrame:
    """Processing, hidden and exposed time per role of one run."""
    cta, role = active["cta"], active["role"]
    length = active["end_ns"] - active["begin_ns"]
    total = np.bincount(role, weights=length, minlength=len(names)).astype(np.int64)
    segments = sweep(cta, role, active["begin_ns"], active["end_ns"])
    fill_until, drain_from = _phases(active, len(names))
    exposed, fill, drain = (np.zeros(len(names), dtype=np.int64) for _ in range(3))
    for code in range(len(names)):
        alone = np.flatnonzero(segments.only(code))
        length, begins, where = segments.length_ns[alone], segments.begin_ns[alone], segments.group[alone]
        exposed[code] = length.sum()
        # Both limits are edges themselves, so no stretch lies across one.
        filling = begins < fill_until[where]
        fill[code] = length @ filling
        drain[code] = length @ (~filling & (begins >= drain_from[where]))
    return pd.DataFrame(
        {
            "role": names,
            "processing_ns": total,
            "hidden_ns": total - exposed,
            "exposed_ns": exposed,
            "fill_ns": fill,
            "drain_ns": drain,
        }
    )


def _phases(active: dict[str, NDArray[np.integer]], count: int) -> tuple[Int64s, Int64s]:
    """Per CTA: when its last role has begun (fill ends), and when its first role has ended (drain begins), ns."""
    ctas = int(active["cta"].max(initial=-1)) + 1
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    begun, ended = np.full(ctas, low), np.full(ctas, high)
    if count < 2 or not ctas:
        return begun, ended
    change = np.ones(len(active["cta"]), dtype=bool)
    change[1:] = (active["cta"][1:] != active["cta"][:-1]) | (active["role"][1:] != active["role"][:-1])
    starts = np.flatnonzero(change)
    lane = active["cta"][starts] * np.int64(count) + active["role"][starts]
    first, last = np.full(ctas * count, high), np.full(ctas * count, low)
    np.minimum.at(first, lane, np.minimum.reduceat(active["begin_ns"], starts))
    np.maximum.at(last, lane, np.maximum.reduceat(active["end_ns"], starts))
    known = (last > low).reshape(ctas, count)
    begun = np.where(known, first.reshape(ctas, count), low).max(axis=1)
    ended = np.where(known, last.reshape(ctas, count), high).min(axis=1)
    return begun, ended


def _waits(spans: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Waiting per run and role, by whether the awaited role comes before or after it in the pipeline."""
    wait = np.flatnonzero(spans["wait"].to_numpy())
    awaited_names = list(spans["waits_for"].cat.categories)
    place = np.array([names.index(n) if n in names else -1 for n in awaited_names] or [-1])
    own = spans["role"].cat.codes.to_numpy()[wait].astype(np.int64)
    awaited = place[spans["waits_for"].cat.codes.to_numpy()[wait]]
    length = spans["end_ns"].to_numpy()[wait] - spans["begin_ns"].to_numpy()[wait]
    runs, dense = np.unique(spans["run"].to_numpy()[wait], return_inverse=True)
    kind = np.where((awaited < 0) | (awaited == own), 2, (awaited > own).astype(np.int64))
    cell = (dense * len(names) + own) * 3 + kind
    sums = np.bincount(cell, weights=length, minlength=len(runs) * len(names) * 3)
    index = pd.MultiIndex.from_product([runs, names], names=["run", "role"])
    columns = ["wait_ready_ns", "wait_free_ns", "wait_other_ns"]
    return pd.DataFrame(sums.reshape(-1, 3), index=index, columns=columns)
