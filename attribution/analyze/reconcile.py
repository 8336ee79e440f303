"""Reconciliation: does the saving of a part, times its share of the whole, account for the saving of the whole?

In: percentages, each with half a unit of its last printed digit as its uncertainty, or measured intervals; or a table of them.
Out: `Reconciled`: estimate and measurement with their intervals, and what is left unexplained (account.py says why it is).
Amdahl: saving of the whole = share x eligible x saving of the part, when share and saving are of one and the same whole.
Misuse: a share of summed kernel time is not a share of elapsed time; where the scopes differ the estimate is a bound on
what could be hoped for, and the difference is printed, not explained away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attribution.errors import DataError

Interval = tuple[float, float, float]
"""Low, value, high."""


def rounded(value: float, digits: int) -> Interval:
    """A printed value with the interval that rounding to `digits` decimals leaves open."""
    half = 0.5 * 10.0**-digits
    return value - half, value, value + half


def printed(text: str, what: str) -> Interval:
    """As `rounded`, of a number as it stands in a text: 9.62 is 9.615 to 9.625.  Raises DataError."""
    digits = text.strip().removeprefix("-")
    whole, _, decimals = digits.partition(".")
    if not whole.isascii() or not whole.isdigit() or (decimals and not (decimals.isascii() and decimals.isdigit())):
        raise DataError(f"{what} {text!r}: must be a number of percent in plain digits, such as 9.62")
    return rounded(float(text), len(decimals))


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

    @property
    def overestimate_pct(self) -> Interval:
        """Estimate - measured with what the intervals of both leave open; an interval above 0 is an overestimate."""
        return (
            self.estimate_low_pct - self.measured_high_pct,
            self.unexplained_pct,
            self.estimate_high_pct - self.measured_low_pct,
        )

    @property
    def times_measured(self) -> float:
        """Estimate over measured; NaN where nothing was saved."""
        return self.estimate_pct / self.measured_pct if self.measured_pct else math.nan

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
    0 to 100 %, or a saving above 100 %.
    """
    if not 0 <= share_pct[1] <= 100 or not 0 <= eligible[1] <= 1:
        raise DataError(f"share {share_pct[1]:g} %, eligible {eligible[1]:g}: allowed are 0 to 100 % and 0 to 1")
    for what, value in (("saving of the part", saving_pct[1]), ("measured saving", measured_pct[1])):
        if value > 100:
            raise DataError(f"{name + ': ' if name else ''}{what} {value:g} %: nothing saves more than all, 100 %")
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


COLUMNS = ("share", "saving", "measured")


def reconcile_rows(rows: Sequence[Mapping[str, str]], file: str) -> list[Reconciled]:
    """`reconcile` of each row of a table as text; the first column is the row's name, or `line N` where it holds a number.

    One column each whose name has the word share, saving, measured (so `indexer_share_pct`).  Raises DataError.
    """
    if not rows:
        raise DataError(f"{file} has no rows: give a table with columns {', '.join(COLUMNS)}")
    if wide := [number for number, row in enumerate(rows, 2) if None in row]:
        raise DataError(f"{file}, line {wide[0]}: it has more cells than there are columns")
    heads = list(rows[0])
    named_rows = not set(COLUMNS) & set(heads[0].split("_"))
    found: dict[str, str] = {}
    for word in COLUMNS:
        named = [h for h in heads[named_rows:] if word in h.split("_")]
        if len(named) != 1:
            raise DataError(
                f"{file}: {len(named)} columns have the word {word} in their name ({', '.join(heads)}); exactly one must"
            )
        found[word] = named[0]
    out = []
    for number, row in enumerate(rows, 2):
        values = [printed(row[found[word]] or "", f"{file}, line {number}, {found[word]}") for word in COLUMNS]
        name = str(row[heads[0]]) if named_rows else f"line {number}"
        out.append(reconcile(values[0], values[1], values[2], name))
    return out
