"""Steady state: how much of a role is hidden, with and without each CTA's last interval, which nothing can hide.

In: spans.  Out: both shares, and how many intervals each rests on; and an exposed time over both of its denominators.
The last interval of a lane is drain, or is cut off by the trace's window (censored): it belongs to the whole's time and not to
the steady state.
Misuse: one number without saying which of the two it is, or over which denominator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from attribution.analyze import overlap
from attribution.errors import DataError, InputError


@dataclass(frozen=True)
class Hidden:
    """Shares of a role's processing during which another role of its CTA processes too; NaN where no interval is left."""

    role: str
    with_last: float
    without_last: float
    intervals: int
    steady: int


def hidden(spans: pd.DataFrame, role: str, skip: int = 0) -> Hidden:
    """Both shares of `role`; the first `skip` intervals of each lane are filling and count in neither.

    Raises InputError for a role that has no work in these spans.
    """
    mine = np.flatnonzero((spans["role"] == role).to_numpy() & ~spans["wait"].to_numpy())
    if not len(mine):
        raise InputError(
            f"role {role!r} has no work here; roles are {', '.join(map(str, spans['role'].cat.categories))}"
        )
    lane = spans.iloc[mine].groupby(["run", "cta"])
    place, size = lane.cumcount().to_numpy(), lane["begin_ns"].transform("size").to_numpy()
    counted = place >= skip
    steady = counted & (place < size - 1)
    return Hidden(
        role,
        _share(spans, mine, counted, role),
        _share(spans, mine, steady, role),
        int(counted.sum()),
        int(steady.sum()),
    )


def _share(spans: pd.DataFrame, mine: np.ndarray, keep: np.ndarray, role: str) -> float:
    if not keep.any():
        return float("nan")
    left = np.ones(len(spans), dtype=bool)
    left[mine[~keep]] = False
    found = overlap.roles(spans[left])
    row = found[found["role"] == role][["hidden_ns", "processing_ns"]].sum()
    return float(row["hidden_ns"] / row["processing_ns"])


def exposed(full_ns: float, control_ns: float) -> dict[str, float]:
    """Exposed time over both denominators: `of_full` (what taking it away would save) and `of_control` (what adding it costs).

    Raises DataError for times that are not positive.
    """
    if not (full_ns > 0 and control_ns > 0):
        raise DataError(f"exposed share of {full_ns:g} and {control_ns:g} ns is not defined: both must be positive")
    return {
        "exposed_ns": full_ns - control_ns,
        "of_full": 1 - control_ns / full_ns,
        "of_control": full_ns / control_ns - 1,
    }
