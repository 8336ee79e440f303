"""Trace events to spans: one row per begin-end pair, and a list of what could not be paired.

In: tables `events` and `lanes`, the roles and events that the kernel declares.  Out: frames.
Events lie in lane order (run, CTA, role), each lane in the order of writing; an event nests, if at all, in others.
Misuse: a begin without an end is listed in `unpaired`, never closed at the end of the trace; totals from a lane that lost
records are refused by `check_complete`; two stamps closer than the timer's tick have no order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attribution.analyze.chunks import CHUNK, each, lane_chunks
from attribution.declare import Event
from attribution.errors import DataError

LANE = ["run", "cta", "role"]
Positions = NDArray[np.int64] | slice
Codes = NDArray[np.integer[Any]]


def lane_keys(frame: Mapping[str, Any] | pd.DataFrame) -> NDArray[np.int64]:
    """One integer per row that says which lane it belongs to: (run * 2^24 + CTA) * 128 + role."""
    run, cta, role = (np.asarray(frame[c]) for c in LANE)
    return (run.astype(np.int64) << 31) | (cta.astype(np.int64) << 7) | role.astype(np.int64)


def spans(events: pd.DataFrame, lanes: pd.DataFrame, roles: Sequence[str], declared: Sequence[Event]) -> pd.DataFrame:
    """Spans in lane order, by begin within a lane.

    Columns: run, cta, sm, role, event (categories), wait (bool), waits_for (category), arg, begin_ns, end_ns, migrated.
    Raises DataError for an event or role that is not declared, or a lane without a header.
    """
    _check_codes(events, roles, declared)
    first, last = _pairs(events)
    columns: dict[str, Codes] = {c: _taken(events[c].to_numpy(), first) for c in ("run", "cta", "role", "event", "arg")}
    begin, end = (_taken(events["time_ns"].to_numpy(), places) for places in (first, last))
    if (bad := np.flatnonzero(end < begin)).size:
        row = events.iloc[first][bad[0] : bad[0] + 1].iloc[0]
        raise DataError(
            f"trace: {bad.size} spans end before they begin, the first in CTA {row['cta']}, role {roles[row['role']]}"
        )
    sm, migrated = _sms(lanes, columns, roles)
    codes = columns["event"]
    return pd.DataFrame(
        {
            "run": columns["run"],
            "cta": columns["cta"],
            "sm": sm,
            "role": _categories(columns["role"], list(roles)),
            "event": _categories(codes, [e.name for e in declared]),
            "wait": np.array([e.waits_for is not None for e in declared])[codes],
            "waits_for": _waits_for(codes, declared),
            "arg": columns["arg"],
            "begin_ns": begin,
            "end_ns": end,
            "migrated": migrated,
        },
        copy=False,
    )


def unpaired(events: pd.DataFrame, roles: Sequence[str], declared: Sequence[Event]) -> pd.DataFrame:
    """Events that no partner was found for: run, cta, role, event, edge (begin or end), arg, time_ns."""
    used = np.zeros(len(events), dtype=bool)
    for indices in _pairs(events):
        used[indices] = True
    left = events[~used]
    return pd.DataFrame(
        {
            "run": left["run"],
            "cta": left["cta"],
            "role": [roles[r] for r in left["role"]],
            "event": [declared[e].name for e in left["event"]],
            "edge": np.where(left["edge"] == 0, "begin", "end"),
            "arg": left["arg"],
            "time_ns": left["time_ns"],
        }
    ).reset_index(drop=True)


def losses(lanes: pd.DataFrame, roles: Sequence[str]) -> pd.DataFrame:
    """Lanes that tried to write more than they could hold: run, cta, role, attempts, capacity, lost."""
    lost = (lanes["attempts"] - lanes["capacity"]).clip(lower=0)
    out = lanes.loc[lost > 0, ["run", "cta", "role", "attempts", "capacity"]].copy()
    out["lost"] = lost[lost > 0]
    out["role"] = [roles[r] for r in out["role"]]
    return out.reset_index(drop=True)


def check_complete(lanes: pd.DataFrame, roles: Sequence[str]) -> None:
    """Raises DataError, naming the first lane, when any lane lost records: no total may be computed from it."""
    lost = losses(lanes, roles)
    if len(lost):
        worst = lost.iloc[0]
        raise DataError(
            f"trace: {int(lost['lost'].sum())} records were lost in {len(lost)} lanes, first CTA {worst['cta']}, role "
            f"{worst['role']} ({worst['attempts']} attempts into a capacity of {worst['capacity']}): totals would be "
            "wrong; raise the trace capacity or trace fewer CTAs"
        )


def tick_ns(events: pd.DataFrame) -> int:
    """The timer's tick as far as the stamps show it: greatest common divisor of their differences; 0 for fewer than two."""
    stamps = np.unique(events["time_ns"].to_numpy())
    return int(np.gcd.reduce(np.diff(stamps))) if len(stamps) > 1 else 0


def duration_text(duration_ns: float, tick: float) -> str:
    """A duration with the tick that it cannot be better than.  Raises DataError below two ticks."""
    if duration_ns < 2 * tick:
        raise DataError(
            f"a duration of {duration_ns:g} ns is below two ticks of the timer ({tick:g} ns each): nothing may be claimed from it"
        )
    return f"{duration_ns:g} ns ± {tick:g}"


def probe_gate(times_ns: Sequence[float], limit: float = 0.01) -> dict[str, Any]:
    """May a traced build's durations be published?  `times_ns`: the same kernel with 0, 1, 2, ... probes.

    `cost`: each build's time over the build without probes.  `publish` is False when the first probe already costs more
    than `limit`: the trace then locates, and no constant is subtracted from its durations.
    """
    base = float(times_ns[0])
    cost = [float(t) / base for t in times_ns]
    publish = len(cost) > 1 and cost[1] - 1 <= limit
    reason = (
        f"the first probe costs {100 * (cost[1] - 1):.1f} %, allowed is {100 * limit:g} %"
        if len(cost) > 1
        else "the cost of a probe was not measured"
    )
    return {"cost": cost, "publish": publish, "reason": reason}


def _check_codes(events: pd.DataFrame, roles: Sequence[str], declared: Sequence[Event]) -> None:
    for column, count in (("role", len(roles)), ("event", len(declared)), ("edge", 2)):
        values = events[column].to_numpy()
        if len(values) and not (values.min() >= 0 and values.max() < count):
            raise DataError(f"trace: {column} {values.max()} is not declared: the kernel has {count}, numbered from 0")


def _categories(codes: Codes, names: list[str]) -> pd.Categorical[str]:
    """Codes that are known to be in range: looking again costs ten million events a tenth of a second."""
    return pd.Categorical.from_codes(codes, categories=pd.Index(names), validate=False)


def _taken(values: NDArray[Any], places: Positions) -> NDArray[Any]:
    """values[places], a piece at a time."""
    if isinstance(places, slice):
        return values[places]
    out = np.empty(len(places), dtype=values.dtype)

    def take(begin: int) -> None:
        values.take(places[begin : begin + CHUNK], out=out[begin : begin + CHUNK], mode="clip")

    each(range(0, len(places), CHUNK), take)
    return out


def _waits_for(codes: Codes, declared: Sequence[Event]) -> pd.Categorical[str]:
    names = ["", *sorted({e.waits_for for e in declared if e.waits_for})]
    of = np.array([names.index(e.waits_for or "") for e in declared], dtype=np.int8)
    return _categories(of[codes], names)


def _sms(
    lanes: pd.DataFrame, columns: Mapping[str, NDArray[Any]], roles: Sequence[str]
) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
    """SM at the begin of each span's lane, and whether the lane ended on another one; looked up once per stretch of a lane."""
    starts = stretches(columns)
    wanted = lane_keys({name: columns[name][starts] for name in LANE})
    known = lane_keys(lanes)
    order = np.argsort(known, kind="stable")
    known = known[order]
    where = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    missing = np.flatnonzero(known[where] != wanted) if len(known) else np.arange(len(wanted))
    if missing.size:
        lost = int(wanted[missing[0]])
        raise DataError(f"trace: no lane header for CTA {lost >> 7 & 0xFFFFFF}, role {roles[lost & 127]}")
    sizes = np.diff(np.r_[starts, len(columns["run"])])
    begin, end = (lanes[c].to_numpy()[order][where] for c in ("sm_begin", "sm_end"))
    return np.repeat(begin, sizes), np.repeat(begin != end, sizes)


def stretches(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Where the rows of another lane begin."""
    change = np.zeros(len(columns["run"]), dtype=bool)
    change[:1] = True
    for name in LANE:
        change[1:] |= columns[name][1:] != columns[name][:-1]
    return np.flatnonzero(change)


def _pairs(events: pd.DataFrame) -> tuple[Positions, Positions]:
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
