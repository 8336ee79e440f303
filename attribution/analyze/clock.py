"""Times of arms that ran at unlike clocks, made comparable: SM cycles, or ns at the clock of one arm.

In: table `times` with the clock of each sample.  Out: the same rows with another number in `time_ns`.
An arm that leaves SMs idle, or takes work away, draws another power and so gets another clock: a law about cycles would then be
judged by the card's power management.  Times that are published as times are never scaled.
Misuse: memory has a clock of its own; what waits for it does not scale with that of the SMs.
"""

from __future__ import annotations

import math

import pandas as pd

from attribution.analyze.pairing import scoped


def in_cycles(times: pd.DataFrame, stage: str, scope: str | None) -> pd.DataFrame | None:
    """Rows of a stage and scope with SM cycles in place of ns; None where a sample has no clock."""
    mine = scoped(times[times["stage"] == stage], scope)
    if mine.empty or mine["clock_mhz"].isna().any():
        return None
    return mine.assign(time_ns=mine["time_ns"] * mine["clock_mhz"] / 1e3)


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
    mhz = float(cycles.loc[cycles["run"].isin(mine.loc[mine["arm"] == base, "run"]), "clock_mhz"].median())
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
