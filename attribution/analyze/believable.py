"""What must hold before a trace is believed: nothing missing, every CTA where its labels say, stamps that have an order.

In: tables `events`, `lanes` and `rows` of one or many runs.  Out: nothing, or a DataError that names the lane.
Misuse: these find contradictions between what was written in two places; one label that is wrong everywhere passes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from attribution.analyze.spans import lane_keys
from attribution.errors import DataError


def check_records(events: pd.DataFrame, lanes: pd.DataFrame, roles: Sequence[str]) -> None:
    """Every record that a lane's header says was kept is there.  Raises DataError.

    A begin and its end that are both gone leave no unpaired event: only the header's count tells.
    """
    keys, counts = np.unique(lane_keys(events), return_counts=True)
    known = lane_keys(lanes)
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
            f"{roles[int(lane['role'])]}: {found[wrong[0]]} of {kept[wrong[0]]}; totals would be wrong, trace again"
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


def stamp_order(events: pd.DataFrame, first: ArrayLike, second: ArrayLike) -> NDArray[np.int8]:
    """Of pairs of events (positions in the table): -1 where the first came before, 1 after, 0 where nothing tells.

    Equal stamps have no order: within one tick either may have come first. Only in one lane the order of writing does.
    """
    one, two = np.atleast_1d(np.asarray(first)), np.atleast_1d(np.asarray(second))
    times, lanes = events["time_ns"].to_numpy(), lane_keys(events)
    written = np.where(lanes[one] == lanes[two], np.sign(one - two), 0)
    apart = np.sign(times[one] - times[two])
    return np.where(apart != 0, apart, written).astype(np.int8)
