"""Second witnesses: does an independent instrument give a term the same share of its own total?

In: shares with intervals from two instruments.  Out: a `Pair` each: `agree`, `witnesses disagree` (with both values, never
averaged), `not confirmed` (one has no interval), or `one witness`.
They agree when their difference is inside sqrt(half-width^2 + half-width^2) + the timers' ticks as shares.
Misuse: agreement of two wide intervals says little: the tolerance is printed beside the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attribution.analyze import stats

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """A share of an instrument's own total, with its 95 % interval (NaN: none) and its resolution."""

    source: str
    value: float
    low: float = math.nan
    high: float = math.nan
    tick: float = 0.0


@dataclass(frozen=True)
class Pair:
    """One term and its two witnesses."""

    term: str
    first: Share | None
    second: Share | None
    note: str = ""

    @property
    def difference(self) -> float:
        """First minus second; NaN where one is missing."""
        return self.first.value - self.second.value if self.first and self.second else math.nan

    @property
    def tolerance(self) -> float:
        """What the difference may be; NaN where an interval is missing."""
        if not self.first or not self.second:
            return math.nan
        halves = [(s.high - s.low) / 2 for s in (self.first, self.second)]
        return math.hypot(*halves) + self.first.tick + self.second.tick

    @property
    def verdict(self) -> str:
        if self.first is None or self.second is None:
            return "one witness" if self.first or self.second else "no witness"
        if math.isnan(self.tolerance):
            return "not confirmed"
        return "agree" if abs(self.difference) <= self.tolerance else "witnesses disagree"

    def row(self) -> dict[str, Any]:
        out: dict[str, Any] = {"term": self.term}
        for name, share in (("first", self.first), ("second", self.second)):
            out[name] = share.source if share else ""
            for field in ("value", "low", "high"):
                out[f"{name}_{field}"] = getattr(share, field) if share else math.nan
        return out | {
            "difference": self.difference,
            "tolerance": self.tolerance,
            "verdict": self.verdict,
            "note": self.note,
        }


def measured(source: str, values: Floats, tick: float = 0.0) -> Share:
    """A share with the interval over runs [n]; one run has none."""
    found = stats.intervals(np.asarray(values, dtype=np.float64), resolution=tick if tick else np.nan)
    return Share(source, float(found.center[0]), float(found.low[0]), float(found.high[0]), tick)


def table(pairs: Sequence[Pair]) -> pd.DataFrame:
    """A row a pair."""
    return pd.DataFrame([p.row() for p in pairs])


def exposed(
    control: tuple[float, float, float],
    account: pd.DataFrame,
    lower: pd.DataFrame,
    names: tuple[str, str, str],
    ticks: tuple[float, float],
    note: str = "",
) -> Pair:
    """Exposed time of what a control takes away: the control against the trace.

    control: low, value, high of 1 - T(lower) / T(base).  names: base, control, and the unit of the shares (time or cycles).
    account: `lastsm.account` of the base's traced runs, with columns `round` and, for cycles, `clock_mhz`; the trace's share is
    waits for the consumer + drain.  With rows in `lower` (the same of the control), the pace role's longer processing, waits and
    drain are compared too: work that the control takes out of the pace role itself, and what the consumer costs it by sharing
    its issue slots and memory, is no wait.
    """
    term = f"exposed above {names[1]}"
    first = Share(f"control {names[0]} - {names[1]}, {names[2]}", control[1], control[0], control[2], ticks[0])
    if account.empty:
        return Pair(term, first, None, f"{names[0]} has no trace")
    parts = ["wait_consumer", "drain"]
    if lower.empty:
        values = account[parts].sum(axis=1).to_numpy()
        return Pair(term, first, measured("trace: waits + drain", values, ticks[1]), note)
    both = account.merge(lower, on="round", suffixes=("", "_lower"))
    parts = [*parts, "processing"]
    whole, below = (
        both[f"total_ns{s}"] * (both[f"clock_mhz{s}"] if names[2] == "cycles" else 1) for s in ("", "_lower")
    )
    mine, its = both[parts].sum(axis=1) * whole, both[[f"{p}_lower" for p in parts]].sum(axis=1) * below
    second = measured("trace: waits + drain + longer processing", ((mine - its) / whole).to_numpy(), ticks[1])
    return Pair(term, first, second, note)


def tail(parts: pd.DataFrame, law: tuple[float, float, float], law_source: str, tick_ns: float) -> Pair:
    """Finish times of the SMs (`lastsm.tail_parts`, a row a run) against the row law's share: low, value, high.

    A law of rows says nothing of the spread among SMs with equally many, so that part of the tail is not compared.
    """
    second = Share(law_source, law[1], law[0], law[2])
    if parts.empty:
        return Pair("tail by rows", None, second, "no trace: no finish time per SM")
    tick = 2 * tick_ns / float(parts["finish_ns"].mean())
    first = measured("trace: mean finish of the busiest SMs minus that of all", parts["by_rows"].to_numpy(), tick)
    return Pair("tail by rows", first, second)


def tensor(counted: Floats, arithmetic: tuple[float, float, float], source: str, rounding: float = 0.0) -> Pair:
    """Tensor time: the counters' share of peak over their own cycles, against FLOP over peak over the time that was measured.

    rounding: share that whole tiles add to the useful FLOP: counters have it and arithmetic has not, so they may differ by it.
    """
    second = Share("arithmetic: useful FLOP / peak / time", arithmetic[1], arithmetic[0], arithmetic[2], rounding)
    if not len(counted):
        return Pair("tensor time", None, second, "no counter of matrix instructions and cycles")
    first = measured(source, counted)
    if len(counted) == 1:
        first = Share(source, float(counted[0]), math.nan, math.nan)
    return Pair("tensor time", first, second)
