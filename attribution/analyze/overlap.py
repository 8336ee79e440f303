"""What each role does while the others work: processing, waiting for whom, hidden and exposed time, fill and drain.

In: spans of one or many runs.  Out: one row per run and role.
processing = work minus the waits inside it; hidden = processing while another role of the same CTA processes too;
exposed = processing while none does.  Busy fraction = processing / (processing + waiting for ready data).
Misuse: exposed time is not what a mechanism costs, and hidden work that is made faster turns into waiting.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attribution.analyze.active import Active, Int64s, processing
from attribution.analyze.chunks import CHUNK, each
from attribution.analyze.sweep import sweep

EXPOSURE = ["processing_ns", "hidden_ns", "exposed_ns", "fill_ns", "drain_ns"]


def roles(spans: pd.DataFrame, active: Active | None = None) -> pd.DataFrame:
    """One row per run and role, sums over all CTAs in ns.  active: `processing(spans)`, where it is known.

    Columns: run, role, processing_ns, hidden_ns, exposed_ns, fill_ns and drain_ns (the exposed time of a CTA before its
    last role has begun, and after its first role has ended), wait_ready_ns (for an upstream role), wait_free_ns (for a
    downstream one), wait_other_ns, busy_fraction (NaN for a role of which no wait for data was traced: it is not known then).
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
    waited = out["wait_ready_ns"].where(out["wait_ready_ns"] > 0)
    out["busy_fraction"] = (out["processing_ns"] / (out["processing_ns"] + waited)).astype(float)
    return out.reset_index().astype({"role": pd.CategoricalDtype(names)})


def waits(spans: pd.DataFrame) -> pd.DataFrame:
    """Who waits for whom, in the order of the pipeline: role, waits_for, time_ns (sum over all CTAs)."""
    mine = spans[spans["wait"].to_numpy(bool)]
    time = mine["end_ns"] - mine["begin_ns"]
    sums = time.groupby([mine["role"], mine["waits_for"]], observed=True).sum()
    return sums.rename("time_ns").reset_index().astype({"role": str, "waits_for": str})


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
