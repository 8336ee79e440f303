"""What must hold before a trace is believed: nothing missing, every CTA where its labels say, stamps that have an order.

In: tables `events`, `lanes` and `rows` of one or many runs.  Out: nothing, or a DataError that names the lane.
Misuse: these find contradictions between what was written in two places; one label that is wrong everywhere passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from attribution.analyze.nesting import LANE, lane_keys, stretches
from attribution.errors import DataError


def check_records(events: pd.DataFrame, lanes: pd.DataFrame, roles: Sequence[str]) -> None:
    """Every record that a lane's header says was kept is there.  Raises DataError.

    A begin and its end that are both gone leave no unpaired event: only the header's count tells.
    """
    keys, counts = _records(events)
    known = lane_keys(lanes)
    if (strange := np.flatnonzero(~np.isin(keys, known))).size:
        lost = int(keys[strange[0]])
        raise DataError(
            f"trace: {strange.size} lanes have records and no header, first run {lost >> 31}, CTA {lost >> 7 & 0xFFFFFF}, "
            f"role {roles[lost & 127]}; a lane is missing, trace again"
        )
    place = np.searchsorted(keys, known)
    found = np.zeros(len(lanes), dtype=np.int64)
    inside = np.flatnonzero(place < len(keys))
    hit = inside[keys[place[inside]] == known[inside]]
    found[hit] = counts[place[hit]]
    kept = np.minimum(lanes["attempts"].to_numpy(), lanes["capacity"].to_numpy())
    wrong = np.flatnonzero(found != kept)
    if wrong.size:
        lane = lanes.iloc[wrong[0]]
        raise DataError(
            f"trace: {wrong.size} lanes do not hold the records that they wrote, first CTA {lane['cta']}, role "
            f"{roles[int(lane['role'])]}: {found[wrong[0]]} of {kept[wrong[0]]}, run {lane['run']}; trace again"
        )


def check_placement(lanes: pd.DataFrame, rows: pd.DataFrame, sms: int) -> None:
    """SM ids are of this device, one for all roles of a CTA, and the same in `rows`.  Raises DataError.

    A lane that migrated (other SM at its end) is flagged in its spans, not refused here.
    """
    for name, ids in (("lanes", lanes["sm_begin"]), ("lanes", lanes["sm_end"]), ("rows", rows["sm"])):
        outside = ids[(ids < 0) | (ids >= sms)]
        if len(outside):
            raise DataError(f"{name}: SM id {outside.iloc[0]} on a device of {sms} SMs")
    per_cta = lanes.groupby(["run", "cta"])["sm_begin"].agg(["min", "max"])
    split = per_cta[per_cta["min"] != per_cta["max"]]
    if len(split):
        run, cta = split.index[0]
        raise DataError(
            f"trace: the roles of CTA {cta} (run {run}) began on SMs {split['min'].iloc[0]} and {split['max'].iloc[0]}: "
            "a CTA is on one SM, so a label is wrong; trace again"
        )
    both = rows[["run", "cta", "sm"]].merge(per_cta["min"].rename("traced"), left_on=["run", "cta"], right_index=True)
    other = both[both["sm"] != both["traced"]]
    if len(other):
        first = other.iloc[0]
        raise DataError(
            f"CTA {first['cta']} (run {first['run']}) is on SM {first['traced']} in its trace and on SM {first['sm']} in "
            f"table rows ({len(other)} CTAs differ): a label is wrong; measure again"
        )


def _records(events: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Keys of all lanes that have records, sorted, and how many each has."""
    starts = stretches({name: events[name].to_numpy() for name in LANE})
    keys = lane_keys(events.iloc[starts])
    counts = np.diff(np.r_[starts, len(events)])
    if (keys[1:] > keys[:-1]).all():
        return keys, counts
    # A lane in several pieces: ten million events are not sorted for the usual case.
    keys, owner = np.unique(keys, return_inverse=True)
    return keys, np.bincount(owner, weights=counts, minlength=len(keys)).astype(np.int64)


def check_codes(frame: pd.DataFrame, column: str, count: int) -> None:
    """Values of role, event or edge are 0 to `count` - 1.  Raises DataError."""
    values = frame[column].to_numpy()
    if len(values) and not (values.min() >= 0 and values.max() < count):
        wrong = values[(values < 0) | (values >= count)][0]
        raise DataError(
            f"trace: {column} {wrong} is not declared: the kernel has {count}, numbered from 0; trace again"
        )


def check_rows(rows: pd.DataFrame, lanes: pd.DataFrame, expected: Mapping[int, int]) -> None:
    """Each traced CTA has its rows once, none of them negative, adding up to `expected` (run -> rows).  Raises DataError."""
    pairs = [np.unique(_cta_keys(lanes)), np.sort(_cta_keys(rows))]
    if not np.array_equal(pairs[0], pairs[1]):
        twice = pairs[1][1:][pairs[1][1:] == pairs[1][:-1]]
        odd = int([*np.setxor1d(pairs[0], pairs[1]), *twice][0])
        raise DataError(
            f"table rows: run {odd >> 31}, CTA {odd >> 7 & 0xFFFFFF} is in its trace "
            f"{int((pairs[0] == odd).any())} times and in rows {int((pairs[1] == odd).sum())} times; measure again"
        )
    if len(bad := rows[rows["rows"] < 0]):
        first = bad.iloc[0]
        raise DataError(f"table rows: run {first['run']}, CTA {first['cta']} has {first['rows']} rows; measure again")
    for run, total in rows.groupby("run")["rows"].sum().items():
        if total != (due := expected.get(int(run), total)):  # type: ignore[call-overload]
            raise DataError(
                f"table rows: the CTAs of run {run} worked on {total} rows, its shape has {due}; measure again"
            )


def _cta_keys(frame: pd.DataFrame) -> NDArray[np.int64]:
    return lane_keys({"run": frame["run"], "cta": frame["cta"], "role": np.zeros(len(frame), np.int64)})


def check_ends(events: pd.DataFrame, stage_ns: pd.Series, exact: bool) -> None:
    """No stamp is negative or later than its run's stage took (`stage_ns`, by run); `exact`: the last is its end.

    Raises DataError.  A run that has no time is not looked at.
    """
    seen = events.groupby("run")["time_ns"].agg(["min", "max"])
    early = seen[seen["min"] < 0]
    if len(early):
        raise DataError(
            f"trace: run {early.index[0]} has a stamp of {early['min'].iloc[0]} ns, before its start; trace again"
        )
    both = seen.join(stage_ns.rename("stage"), how="inner")
    apart = both["max"] - both["stage"]
    # Times are doubles and stamps whole ns: half of one is rounding.
    wrong = both[(apart.abs() if exact else apart) > 0.5]
    if len(wrong):
        first = wrong.iloc[0]
        raise DataError(
            f"trace: the last stamp of run {wrong.index[0]} is at {int(first['max'])} ns and its stage took "
            f"{first['stage']:.0f} ns ({len(wrong)} runs): trace and time contradict each other; measure again"
        )


def stamp_order(events: pd.DataFrame, first: ArrayLike, second: ArrayLike) -> NDArray[np.int8]:
    """Of pairs of events (positions in the table): -1 where the first came before, 1 after, 0 where nothing tells.

    Equal stamps have no order: within one tick either may have come first. Only in one lane the order of writing does.
    """
    one, two = np.atleast_1d(np.asarray(first)), np.atleast_1d(np.asarray(second))
    times, lanes = events["time_ns"].to_numpy(), lane_keys(events)
    written = np.where(lanes[one] == lanes[two], np.sign(one - two), 0)
    apart = np.sign(times[one] - times[two])
    return np.where(apart != 0, apart, written).astype(np.int8)
