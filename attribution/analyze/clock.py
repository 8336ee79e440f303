"""Times of arms that ran at unlike clocks, made comparable: SM cycles, or ns at the clock of one arm.

In: table `times` with the clock of each sample.  Out: the same rows with another number in `time_ns`.
An arm that leaves SMs idle, or takes work away, draws another power and so gets another clock: a law about cycles would then be
judged by the card's power management.  Times that are published as times are never scaled.
Misuse: memory has a clock of its own; what waits for it does not scale with that of the SMs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from attribution.analyze import stats
from attribution.analyze.pairing import pair_rounds, scoped

UNLIKE = 0.005
"""Clocks that differ by more have a part in a difference of times, which is then told."""


def in_cycles(times: pd.DataFrame, stage: str, scope: str | None) -> pd.DataFrame | None:
    """Rows of a stage and scope with SM cycles in place of ns; None where a sample has no clock."""
    mine = scoped(times[times["stage"] == stage], scope)
    if mine.empty or mine["clock_mhz"].isna().any():
        return None
    return mine.assign(time_ns=mine["time_ns"] * mine["clock_mhz"] / 1e3)


def own_cycles(times: pd.DataFrame, stage: str, scope: str) -> pd.DataFrame | None:
    """`in_cycles` where the clock of a sample is the stage's own: not of one stage among others in scope event."""
    return None if scope.startswith("event/") and stage != "operator" else in_cycles(times, stage, scope)


def clock_of(runs: pd.DataFrame, times: pd.DataFrame, arm: str) -> float:
    """Median SM clock of the samples of one arm, MHz; NaN without any."""
    return float(times.loc[times["run"].isin(runs.loc[runs["arm"] == arm, "run"]), "clock_mhz"].median())


def contrast_in_cycles(
    ran: pd.DataFrame, timed: pd.DataFrame, base: str, arm: str, stage: str, scope: str
) -> dict[str, float]:
    """base_mhz and arm_mhz (medians), cycles_ratio (arm / base, SM cycles paired by round) with its bounds (95 %).

    ran: runs that ended well; timed: times of one stage and scope.  Empty where a sample has no clock of its own.
    """
    cycles = own_cycles(timed, stage, scope)
    if cycles is None or (pairs := pair_rounds(ran, cycles, base, arm)).empty:
        return {}
    mhz = [clock_of(ran, cycles, a) for a in (base, arm)]
    found = stats.intervals(np.log(pairs["arm_ns"].to_numpy(float) / pairs["base_ns"].to_numpy(float)))
    low, center, high = (float(np.exp(x[0])) for x in (found.low, found.center, found.high))
    names = ("base_mhz", "arm_mhz", "cycles_ratio", "cycles_ratio_low", "cycles_ratio_high")
    return dict(zip(names, (*mhz, center, low, high), strict=True))


def told(found: Mapping[str, float]) -> list[str]:
    """What a contrast's clocks have to do with its ratio, in words; nothing where they are alike or not known."""
    if not found or abs(found["arm_mhz"] / found["base_mhz"] - 1) <= UNLIKE:
        return []
    ratio, low, high = (found[f"cycles_ratio{part}"] for part in ("", "_low", "_high"))
    bounds = f" [{low:.3f}, {high:.3f}]" if low == low else ""
    return [f"in SM cycles {ratio:.3f}{bounds}, at {found['arm_mhz']:.0f} MHz against {found['base_mhz']:.0f}"]


def at_clock_of(
    runs: pd.DataFrame, times: pd.DataFrame, base: str, stage: str, scope: str | None
) -> tuple[pd.DataFrame, float]:
    """Rows with ns as they would be at the median clock of arm `base`, and that clock in MHz.

    `times` as they are, and NaN, where a sample has no clock.
    """
    mine = runs[(runs["question"] == base) & (runs["status"] == "ok")]
    cycles = in_cycles(times[times["run"].isin(mine["run"])], stage, scope)
    if cycles is None:
        return times, math.nan
    mhz = clock_of(mine, cycles, base)
    return cycles.assign(time_ns=cycles["time_ns"] * 1e3 / mhz), mhz


def clock_sentence(base: str, mhz: float, kind: str, scope: str = "") -> str:
    """What the reader must know of such times of one stage; '' where they are as measured, and on the reference machine with its
    one clock.
    """
    if math.isnan(mhz) or kind == "host":
        return ""
    whole = (
        "  In scope event that is the whole operator's, and overstates the stage's."
        if scope.startswith("event/")
        else ""
    )
    return f"Times are at {base}'s clock, {mhz:.0f} MHz (cycles / clock): arms ran at unlike clocks.{whole}"
