"""The critical path through slots and barriers: who held up the end, walked back from the last stamp of the last SM.

In: spans of one run, of a CTA's roles with their waits.  Out: stretches (sm, cta, role, kind, begin_ns, end_ns) from the first
begin on that SM to its last end, without gaps and without overlap; and their sums.
At a wait the walk goes to the role that was waited for, at the moment in which the wait ended.
Misuse: the path is one of possibly several; what is off it has slack, what is on it need not be worth its whole length.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from attribution.errors import DataError

Stretch = tuple[int, str, str, int, int]
COLUMNS = ["sm", "cta", "role", "kind", "begin_ns", "end_ns"]


def path(spans: pd.DataFrame) -> pd.DataFrame:
    """The path on the SM that finishes last.

    kind: `work` (the role runs), `unowned` (nothing that the trace shows runs on this CTA) or `idle` (between two CTAs of the
    SM).  Spans of one run.  Raises DataError for spans of several runs, or none.
    """
    runs = spans["run"].unique()
    if len(runs) != 1:
        raise DataError(f"a critical path needs the spans of one run; these are of {len(runs)}")
    last = int(spans["sm"].to_numpy()[spans["end_ns"].to_numpy().argmax()])
    mine = spans[spans["sm"] == last]
    begin = mine.groupby("cta")["begin_ns"].min()
    end = mine.groupby("cta")["end_ns"].max()
    order = end.sort_values(ascending=False).index
    rows: list[Stretch] = []
    until = int(end.loc[order[0]])
    for cta in order:
        stop = min(until, int(end.loc[cta]))
        if stop < until:
            rows.append((int(cta), "", "idle", stop, until))
        if begin.loc[cta] >= stop:  # A resident neighbour that lies wholly beside what is already on the path.
            until = stop
            continue
        rows += _walk(mine[mine["cta"] == cta], int(cta), int(begin.loc[cta]), stop)
        until = int(begin.loc[cta])
    out = pd.DataFrame(rows[::-1], columns=COLUMNS[1:])
    out.insert(0, "sm", last)
    return out[out["end_ns"] > out["begin_ns"]].reset_index(drop=True)


def _walk(spans: pd.DataFrame, cta: int, first: int, stop: int) -> list[Stretch]:
    """Stretches of one CTA from `stop` back to `first`, the latest first."""
    lanes = {str(r): part for r, part in spans.groupby("role", observed=True)}
    work = {r: _union(p[~p["wait"].to_numpy()]) for r, p in lanes.items()}
    waits = {r: p[p["wait"].to_numpy()].sort_values("end_ns", kind="stable") for r, p in lanes.items()}
    begins, ends = ({r: w[c].to_numpy(np.int64) for r, w in waits.items()} for c in ("begin_ns", "end_ns"))
    awaited = {r: w["waits_for"].astype(str).to_numpy() for r, w in waits.items()}
    rows: list[Stretch] = []
    role, now = _latest(work, stop), stop
    here: set[str] = set()  # Roles that were already asked about this moment: two may wait for each other in one tick.
    while now > first:
        here.add(role)
        i = int(np.searchsorted(ends[role], now, side="right")) - 1
        inside = i + 1 < len(ends[role]) and begins[role][i + 1] < now
        if not inside and i >= 0 and ends[role][i] == now:
            target = str(awaited[role][i])
            if target in lanes and target not in here:
                role = target
                continue
        if inside or (i >= 0 and ends[role][i] == now):
            # It waits, and for nobody that the trace shows: between a signal and its being seen, say.
            since = max(int(begins[role][i + 1 if inside else i]), first)
            rows.append((cta, role, "unowned", since, now))
        else:
            since = max(int(ends[role][i]), first) if i >= 0 else first
            rows += _stretch(work[role], cta, role, since, now)
        now = since
        here = set()
    return rows


def _union(spans: pd.DataFrame) -> np.ndarray:
    """Disjoint work intervals [n, 2] in order."""
    begin, end = spans["begin_ns"].to_numpy(np.int64), spans["end_ns"].to_numpy(np.int64)
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    if not len(begin):
        return np.zeros((0, 2), dtype=np.int64)
    reach = np.maximum.accumulate(end)
    new = np.r_[True, begin[1:] > reach[:-1]]
    starts = np.flatnonzero(new)
    return np.stack([begin[starts], np.maximum.reduceat(end, starts)], axis=1)


def _latest(work: dict[str, np.ndarray], stop: int) -> str:
    """The role whose work ends last."""
    return max(work, key=lambda r: min(int(work[r][-1, 1]), stop) if len(work[r]) else -1)


def _stretch(work: np.ndarray, cta: int, role: str, since: int, now: int) -> list[Stretch]:
    """[since, now] of one role, the latest first: work where its spans cover it, unowned where they do not."""
    rows: list[Stretch] = []
    at = now
    for k in range(int(np.searchsorted(work[:, 0], now, side="left")) - 1, -1, -1):
        low, high = max(int(work[k, 0]), since), min(int(work[k, 1]), now)
        if high <= since:
            break
        if high < at:
            rows.append((cta, role, "unowned", high, at))
        rows.append((cta, role, "work", low, high))
        at = low
    if at > since:
        rows.append((cta, role, "unowned", since, at))
    return rows


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Sums of a path: role (`idle` for none), kind, time_ns, share of the path."""
    out = found.assign(time_ns=found["end_ns"] - found["begin_ns"])
    out = out.groupby(["role", "kind"], sort=False)["time_ns"].sum().reset_index()
    out["role"] = out["role"].where(out["role"] != "", "idle")
    return out.assign(share=out["time_ns"] / out["time_ns"].sum()).sort_values(
        "time_ns", ascending=False, ignore_index=True
    )
