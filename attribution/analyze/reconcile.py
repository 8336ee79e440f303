"""Reconciliation: does the saving of a part, times its share of the whole, account for the saving of the whole?

In: percentages, each with half a unit of its last printed digit as its uncertainty, or measured intervals.
Out: `Reconciled`: estimate and measurement with their intervals, and what is left unexplained.
Amdahl: saving of the whole = share x eligible x saving of the part, when share and saving are of one and the same whole.
Misuse: a share of summed kernel time is not a share of elapsed time; where the scopes differ the estimate is a bound on
what could be hoped for, and the difference is printed, not explained away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attribution.errors import DataError

Interval = tuple[float, float, float]
"""Low, value, high."""


def rounded(value: float, digits: int) -> Interval:
    """A printed value with the interval that rounding to `digits` decimals leaves open."""
    half = 0.5 * 10.0**-digits
    return value - half, value, value + half


@dataclass(frozen=True)
class Reconciled:
    """Percent of the whole.  `unexplained_pct` = estimate - measured; verdict `agree`, `less than estimated` or `more ...`."""

    name: str
    estimate_pct: float
    estimate_low_pct: float
    estimate_high_pct: float
    measured_pct: float
    measured_low_pct: float
    measured_high_pct: float
    unexplained_pct: float
    verdict: str
    note: str

    def __str__(self) -> str:
        return (
            f"{self.name}: estimated {self.estimate_pct:.3f} % [{self.estimate_low_pct:.3f}, {self.estimate_high_pct:.3f}], "
            f"measured {self.measured_pct:.3f} % [{self.measured_low_pct:.3f}, {self.measured_high_pct:.3f}]: {self.verdict}, "
            f"{self.unexplained_pct:+.3f} % of the whole unexplained" + (f"; {self.note}" if self.note else "")
        )


def reconcile(
    share_pct: Interval,
    saving_pct: Interval,
    measured_pct: Interval,
    name: str = "",
    eligible: Interval = (1.0, 1.0, 1.0),
    scopes: tuple[str, str, str] | None = None,
) -> Reconciled:
    """Share of the whole x saving of the part, against the measured saving of the whole.

    `eligible`: fraction of the part that the saving applies to (what falls back does not save).  `scopes`: of share,
    saving and measurement; unlike ones are said, and then agreement is not claimed.  Raises DataError for a share outside
    0 to 100 %.
    """
    if not 0 <= share_pct[1] <= 100 or not 0 <= eligible[1] <= 1:
        raise DataError(f"share {share_pct[1]:g} %, eligible {eligible[1]:g}: allowed are 0 to 100 % and 0 to 1")
    corners = np.array([s * v * e / 100 for s in share_pct[::2] for v in saving_pct[::2] for e in eligible[::2]])
    estimate = share_pct[1] * saving_pct[1] * eligible[1] / 100
    low, high = float(corners.min()), float(corners.max())
    unlike = scopes is not None and len(set(scopes)) > 1
    if low <= measured_pct[2] and measured_pct[0] <= high:
        verdict = "within the intervals" if unlike else "agree"
    else:
        verdict = "less than estimated" if measured_pct[1] < estimate else "more than estimated"
    note = f"share, saving and measurement are of unlike scopes: {', '.join(scopes or ())}" if unlike else ""
    return Reconciled(name, estimate, low, high, measured_pct[1], measured_pct[0], measured_pct[2],
                      estimate - measured_pct[1], verdict, note)  # fmt: skip


def saving(before: Interval, after: Interval) -> Interval:
    """Percent saved from `before` to `after` (one scope), low, value, high; conservative at the corners."""
    return (
        100 * (1 - after[2] / before[0]),
        100 * (1 - after[1] / before[1]),
        100 * (1 - after[0] / before[2]),
    )
