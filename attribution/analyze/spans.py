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

from attribution.analyze.chunks import CHUNK, each
from attribution.analyze.nesting import LANE, Codes, Positions, lane_keys, pairs_of, stretches
from attribution.declare import Event
from attribution.errors import DataError


def spans(events: pd.DataFrame, lanes: pd.DataFrame, roles: Sequence[str], declared: Sequence[Event]) -> pd.DataFrame:
    """Spans in lane order, by begin within a lane.

    Columns: run, cta, sm, role, event (categories), wait (bool), waits_for (category), arg, begin_ns, end_ns, migrated.
    Raises DataError for an event or role that is not declared, or a lane without a header.
    """
    _check_codes(events, roles, declared)
    first, last = pairs_of(events)
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
    for indices in pairs_of(events):
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
