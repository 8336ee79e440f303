"""Which kernels belong to a range, under a rule that has a name.

In: `kernels` and `ranges`.  Out: `range_times`, and for each kernel the one range that owns it.
  launched_by_thread      the launching call began in the range, on the thread that opened it
  launched_by_any_thread  the launching call began in the range, on whatever thread of that process
  running_in              the kernel began and ended inside the range; device time against host time
Misuse: the rules give different numbers for good reasons (a range often ends before its kernels begin); never add or
compare times of two rules.  Nothing here looks at a kernel's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from attribution.errors import InputError
from attribution.ingest import frames
from attribution.ingest.frames import Coded
from attribution.ingest.timeline import union_ns

RULES = ("launched_by_thread", "launched_by_any_thread", "running_in")
NO_LAUNCH, OUTSIDE, CONTESTED = "no launching call", "outside every range", "in two crossing ranges"


def range_times(kernels: pd.DataFrame, ranges: pd.DataFrame) -> pd.DataFrame:
    """Table `range_times`: every range under every rule, kernels counted again in nested ranges."""
    rows: list[tuple[Any, ...]] = []
    begin, end = kernels["begin_ns"].to_numpy(), kernels["end_ns"].to_numpy()
    for rule in RULES:
        place, usable = _places(kernels, rule)
        order = np.argsort(place, kind="stable")
        order = order[usable[order]]
        claims = _claims(kernels, ranges, rule, order, place[order])
        contested = _contested(len(kernels), ranges, claims)
        outside = int((~usable).sum())
        for number, mine in enumerate(claims):
            time = int((end[mine] - begin[mine]).sum())
            busy = union_ns(begin[mine], end[mine])
            rows.append((number, rule, len(mine), time, busy, int(contested[mine].sum()), outside))
    columns = list(zip(*rows, strict=True)) or [()] * 7
    own = np.array(columns[0], np.int32)
    about = {c: Coded(own, list(ranges[c].astype(str))) for c in ("range_name", "file")}
    return frames.table(
        "range_times", len(rows), range=ranges["range"].to_numpy()[own], rule=list(columns[1]), kernels=list(columns[2]),
        occurrence=ranges["occurrence"].to_numpy()[own], time_ns=list(columns[3]), busy_ns=list(columns[4]),
        contested=list(columns[5]), outside=list(columns[6]), **about,
    )  # fmt: skip


def owners(kernels: pd.DataFrame, ranges: pd.DataFrame, rule: str) -> pd.DataFrame:
    """For each kernel the innermost range that owns it: columns `kernel`, `range` (-1 for none), `why`.

    A kernel in two ranges that cross (neither lies within the other), or that are the same interval on two threads, has
    no owner: it is counted as unattributed, with the reason.
    """
    if rule not in RULES:
        raise InputError(f"rule {rule!r} is not known; allowed are {', '.join(RULES)}")
    place, usable = _places(kernels, rule)
    order = np.argsort(place, kind="stable")
    order = order[usable[order]]
    claims = _claims(kernels, ranges, rule, order, place[order])
    contested = _contested(len(kernels), ranges, claims)
    owner = np.full(len(kernels), -1, np.int64)
    length = (ranges["end_ns"] - ranges["begin_ns"]).to_numpy()
    for number in np.argsort(-length, kind="stable"):  # long ranges first: the innermost writes last
        owner[claims[number]] = ranges["range"].to_numpy()[number]
    why = np.where(usable, np.where(owner < 0, OUTSIDE, ""), NO_LAUNCH).astype(object)
    why[contested] = CONTESTED
    owner[contested] = -1
    return pd.DataFrame({"kernel": kernels["kernel"].to_numpy(), "range": owner, "why": pd.array(why, "string")})


def _places(kernels: pd.DataFrame, rule: str) -> tuple[np.ndarray, np.ndarray]:
    """The instant [kernels] that a rule looks at, and whether the kernel has one."""
    if rule == "running_in":
        return kernels["begin_ns"].to_numpy(), np.ones(len(kernels), bool)
    return kernels["launch_begin_ns"].to_numpy(), kernels["launched"].to_numpy()


def _claims(
    kernels: pd.DataFrame, ranges: pd.DataFrame, rule: str, order: np.ndarray, place: np.ndarray
) -> list[np.ndarray]:
    """For each range the rows of the kernels that it claims; `place` is sorted by `order`."""
    first = np.searchsorted(place, ranges["begin_ns"].to_numpy(), side="left")
    last = np.searchsorted(place, ranges["end_ns"].to_numpy(), side="right")
    threads, mine = _numbered(ranges["thread"], kernels["launch_thread"], lambda thread: thread)
    processes, of = _numbered(ranges["thread"], kernels["launch_thread"], lambda thread: thread.split("/")[0])
    thread, process = mine[order], of[order]
    ends = kernels["end_ns"].to_numpy()[order]
    out = []
    range_ends = ranges["end_ns"].to_numpy()
    for number, (a, b) in enumerate(zip(first, last, strict=True)):
        if rule == "launched_by_thread":
            keep = thread[a:b] == threads[number]
        elif rule == "launched_by_any_thread":
            keep = process[a:b] == processes[number]
        else:
            keep = ends[a:b] <= range_ends[number]
        out.append(order[a:b][keep])
    return out


def _numbered(first: pd.Series, second: pd.Series, key: Callable[[str], str]) -> tuple[np.ndarray, np.ndarray]:
    """The same number for the same `key` of the texts in two columns of categories."""
    numbers: dict[str, int] = {}
    out = []
    for column in (first, second):
        known = [numbers.setdefault(key(str(name)), len(numbers)) for name in column.cat.categories]
        out.append(np.array(known, np.int64)[column.cat.codes] if known else np.empty(0, np.int64))
    return out[0], out[1]


def _contested(kernels: int, ranges: pd.DataFrame, claims: list[np.ndarray]) -> np.ndarray:
    """bool [kernels]: claimed by two ranges of which neither is the other's inside.

    Ranges that claim one kernel share an instant; in order of begin, they nest exactly when their ends fall.
    """
    begin, end = ranges["begin_ns"].to_numpy(), ranges["end_ns"].to_numpy()
    thread = list(ranges["thread"].astype(str))
    shortest = np.full(kernels, np.iinfo(np.int64).max)
    latest = np.full(kernels, -1, np.int64)
    out = np.zeros(kernels, bool)
    for number in np.lexsort((-end, begin)):
        mine = claims[number]
        out[mine] |= end[number] > shortest[mine]
        before = latest[mine]
        twin = (before >= 0) & (begin[before] == begin[number]) & (end[before] == end[number])
        if twin.any():
            out[mine[twin]] |= np.array([thread[b] != thread[number] for b in before[twin]])
        shortest[mine] = np.minimum(shortest[mine], end[number])
        latest[mine] = number
    return out
