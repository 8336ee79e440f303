"""Which end belongs to which begin: pairs of trace events, lane by lane.

In: events in the order of writing.  Out: positions of begins and of their ends.
Three ways: begins directly followed by their ends; events that nest cleanly, peeled from the inside; and lanes that lost
records, event by event.
Misuse: what has no partner is in no pair; `spans.unpaired` lists it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attribution.analyze.chunks import each, lane_chunks

LANE = ["run", "cta", "role"]
Positions = NDArray[np.int64] | slice
Codes = NDArray[np.integer[Any]]


def lane_keys(frame: Mapping[str, Any] | pd.DataFrame) -> NDArray[np.int64]:
    """One integer per row that says which lane it belongs to: (run * 2^24 + CTA) * 128 + role."""
    run, cta, role = (np.asarray(frame[c]) for c in LANE)
    return (run.astype(np.int64) << 31) | (cta.astype(np.int64) << 7) | role.astype(np.int64)


def stretches(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Where the rows of another lane begin."""
    change = np.zeros(len(columns["run"]), dtype=bool)
    change[:1] = True
    for name in LANE:
        change[1:] |= columns[name][1:] != columns[name][:-1]
    return np.flatnonzero(change)


def pairs_of(events: pd.DataFrame) -> tuple[Positions, Positions]:
    """Positions of the begins and of their ends, by lane, in the order of the begins."""
    edge, event = events["edge"].to_numpy(), events["event"].to_numpy()
    lanes = {c: events[c].to_numpy() for c in LANE}
    starts = stretches(lanes)
    keys = lane_keys({name: c[starts] for name, c in lanes.items()})
    # Lanes out of order would pass as they are, and overlap would then cut a CTA in two.
    if (keys[1:] > keys[:-1]).all():
        if _alternate(edge, event) and not (starts % 2).any():
            return slice(0, None, 2), slice(1, None, 2)
        if (found := _peeled(edge, event, starts)) is not None:
            return found
    key = lane_keys(events)
    order = np.argsort(key, kind="stable")
    key, edge, event = key[order], edge[order], event[order]
    first, last = _nested(key, edge, event)
    by_begin = np.argsort(first, kind="stable")
    return order[first][by_begin], order[last][by_begin]


def _alternate(edge: Codes, event: Codes) -> bool:
    """Whether each begin is directly followed by its end: then a slice does what ten million events need."""
    if len(edge) % 2 or edge[0::2].any() or not edge[1::2].all():
        return False
    return bool((event[0::2] == event[1::2]).all())


def _peeled(edge: Codes, event: Codes, starts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Pairs of lanes in which events nest cleanly, without sorting.  None where they do not: a record may be missing."""

    def here(cut: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        lanes = starts[np.searchsorted(starts, cut.start) : np.searchsorted(starts, cut.stop)] - cut.start
        found = _peeled_here(edge[cut], event[cut], lanes)
        return None if found is None else (found[0] + cut.start, found[1] + cut.start)

    parts = [part for part in each(lane_chunks(starts, len(edge)), here) if part is not None]
    if 2 * sum(len(first) for first, _ in parts) < len(edge):
        return None
    return np.concatenate([first for first, _ in parts]), np.concatenate([last for _, last in parts])


def _peeled_here(
    edge: Codes, event: Codes, starts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The same for a few lanes: pairs with nothing between them are taken out until nothing is left."""
    ends = np.empty(len(edge), dtype=np.int64)
    left = np.arange(len(edge))
    its_edge, its_event = edge, event
    while len(left):
        inner = np.flatnonzero((its_edge[:-1] < its_edge[1:]) & (its_event[:-1] == its_event[1:]))
        begin, end = left[inner], left[inner + 1]
        if not len(inner) or (np.searchsorted(starts, begin, "right") != np.searchsorted(starts, end, "right")).any():
            return None
        ends[begin] = end
        outside = np.ones(len(left), dtype=bool)
        outside[inner] = outside[inner + 1] = False
        left = left[outside]
        its_edge, its_event = edge[left], event[left]
    first = np.flatnonzero(edge == 0)
    return first, ends[first]


def _nested(
    key: NDArray[np.int64], edge: NDArray[np.int8], event: NDArray[np.int8]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs in lanes sorted by key: by depth where a lane is clean, event by event where it is not."""
    step = np.where(edge == 0, 1, -1)
    depth = np.cumsum(step)
    starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    lane = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(key)]))
    depth = depth - (depth[starts] - step[starts])[lane]
    level = depth + (edge == 1)
    order = np.lexsort((np.arange(len(key)), level, lane))
    even = np.flatnonzero((edge[order[:-1]] == 0) & (edge[order[1:]] == 1))
    first, last = order[even], order[even + 1]
    good = (lane[first] == lane[last]) & (level[first] == level[last]) & (event[first] == event[last])
    paired = np.zeros(len(key), dtype=bool)
    paired[first[good]] = paired[last[good]] = True
    dirty = np.unique(lane[~paired])
    if not len(dirty):
        return first, last
    clean = good & ~np.isin(lane[first], dirty)
    extra = [p for d in dirty for p in _stack(np.flatnonzero(lane == d), edge, event)]
    more = np.array(extra, dtype=np.int64).reshape(-1, 2)
    return np.r_[first[clean], more[:, 0]], np.r_[last[clean], more[:, 1]]


def _stack(where: NDArray[np.int64], edge: NDArray[np.int8], event: NDArray[np.int8]) -> list[tuple[int, int]]:
    """Pairs of one damaged lane: an end closes the innermost open begin of its event; begins inside it stay open."""
    pairs: list[tuple[int, int]] = []
    stack: list[int] = []
    for i in where:
        if edge[i] == 0:
            stack.append(int(i))
            continue
        match = next((n for n in range(len(stack) - 1, -1, -1) if event[stack[n]] == event[i]), None)
        if match is not None:
            pairs.append((stack[match], int(i)))
            del stack[match:]
    return pairs
