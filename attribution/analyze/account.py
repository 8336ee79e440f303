"""From share x saving to what was measured, term by term: why a part's gain is not the whole's.

In: arrays over rounds, or single numbers, all of one and the same whole.  Out: `Account`; every term in percent of the whole.
The terms follow from each other: estimate = share x saving; less what fell back; less what the share's denominator does not
know of (gaps between kernels) and counts twice (kernels side by side); less what is off the critical path; less the adapter.
Nothing is left over by construction only when all of them hold, so the remainder is printed with its interval.
Misuse: a term that was not measured is absent, and its effect is then in the remainder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attribution.analyze import stats
from attribution.analyze.reconcile import Interval

Floats = NDArray[np.float64]

NOTES = {
    "fallback": "calls that fell back save nothing",
    "gaps": "the share is of kernel time; the whole also has time in which no kernel runs",
    "overlap": "kernels side by side are summed, but pass at once",
    "critical path": "taking the part away frees less (or more) than its kernels' sum",
    "adapter": "cost of the adapter where the fused path is never used, by its calls that fell back",
}


@dataclass(frozen=True)
class Term:
    """One step from the estimate towards the measurement: it is subtracted.  Percent of the whole."""

    name: str
    pct: Interval
    note: str


@dataclass(frozen=True)
class Account:
    """Percent of the whole.  `remainder` = estimate - terms - measured; `verdict`: explained, not explained or undecided."""

    name: str
    share: Interval
    saving: Interval
    estimate: Interval
    measured: Interval
    terms: tuple[Term, ...]
    remainder: Interval
    verdict: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        terms = "; ".join(f"{t.name} {t.pct[1]:+.3f}" for t in self.terms)
        return (
            f"{self.name}: share {self.share[1]:.2f} % x saving {self.saving[1]:.2f} % = {self.estimate[1]:.3f} %, measured "
            f"{self.measured[1]:.3f} %; {terms or 'no terms'}; remainder {self.remainder[1]:+.3f}: {self.verdict}"
        )

    def row(self) -> dict[str, Any]:
        """All intervals as columns `name_pct`, `name_low_pct`, `name_high_pct`."""
        out: dict[str, Any] = {"name": self.name}
        named = {
            "share": self.share, "saving": self.saving, "estimate": self.estimate, "measured": self.measured,
            **{t.name.replace(" ", "_"): t.pct for t in self.terms}, "remainder": self.remainder,
        }  # fmt: skip
        for key, (low, value, high) in named.items():
            out |= {f"{key}_pct": value, f"{key}_low_pct": low, f"{key}_high_pct": high}
        return out | {"verdict": self.verdict, "notes": "; ".join(self.notes)}


def terms_of(
    estimate: ArrayLike,
    eligible: ArrayLike,
    whole: ArrayLike,
    summed: float = math.nan,
    busy: float = math.nan,
    exposed: ArrayLike = math.nan,
    part: ArrayLike = math.nan,
    adapter: ArrayLike = math.nan,
) -> dict[str, Floats]:
    """Term -> percent of the whole, for every round; a term with NaN among its inputs is left out.

    `estimate`: %; `eligible`: fraction of the part that does not fall back; the others are times of one request in one unit:
    the whole, its kernels summed and their union, the time that taking the part away frees, the part's own, the adapter's.
    """
    e, f, t = (np.asarray(a, np.float64) for a in (estimate, eligible, whole))
    left = e * f
    out = {"fallback": e * (1 - f), "gaps": left * (1 - busy / t), "overlap": -left * (summed - busy) / t}
    in_whole = left if math.isnan(summed) else left * summed / t
    out["critical path"] = in_whole * (1 - np.asarray(exposed, np.float64) / np.asarray(part, np.float64))
    out["adapter"] = 100 * np.asarray(adapter, np.float64) / t
    return {name: value for name, value in out.items() if np.isfinite(value).all()}


def account(
    name: str,
    share: Interval,
    saving: Interval,
    estimate: Floats,
    measured: Floats,
    terms: Mapping[str, Floats],
    outside_pct: Mapping[str, float] | None = None,
    notes: tuple[str, ...] = (),
) -> Account:
    """The account of paired rounds, arrays [rounds] in percent.

    `outside_pct`: half-widths that the rounds do not show (of a number from elsewhere), by term; `estimate` and `remainder`
    may have one too.
    """
    wider = outside_pct or {}

    def interval(key: str, values: Floats) -> Interval:
        return widened(over_rounds(values), wider.get(key, 0.0))

    left = estimate - measured - sum(terms.values(), np.zeros_like(estimate))
    found = tuple(Term(key, interval(key, values), NOTES[key]) for key, values in terms.items())
    whole, seen, rest = interval("estimate", estimate), interval("measured", measured), interval("remainder", left)
    return Account(name, share, saving, whole, seen, found, rest, judged(whole[1] - seen[1], rest), notes)


def judged(discrepancy_pct: float, remainder: Interval) -> str:
    """`explained`: the remainder's interval holds 0 and is narrower than what there was to explain.

    `undecided`: it holds 0 because it is wide.  `not explained`: it does not hold 0.
    """
    low, _, high = remainder
    if math.isnan(low) or math.isnan(high):
        return "undecided"
    if low > 0 or high < 0:
        return "not explained"
    return "explained" if (high - low) / 2 < abs(discrepancy_pct) else "undecided"


def over_rounds(values: Floats) -> Interval:
    """Mean with its 95 % interval; NaN bounds for one round, none around what is the same in every round."""
    if len(values) > 1 and np.ptp(values) == 0:
        return float(values[0]), float(values[0]), float(values[0])
    found = stats.intervals(values)
    return float(found.low[0]), float(found.center[0]), float(found.high[0])


def widened(interval: Interval, half: float) -> Interval:
    """The interval with an independent half-width added in quadrature."""
    low, value, high = interval
    return value - math.hypot(value - low, half), value, value + math.hypot(high - value, half)
