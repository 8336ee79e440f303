"""Times brought to one SM clock: the clock of each sample, which was measured beside it, as a declared covariate.

In: the tables runs and times of a recording.  Out: times whose clock policy is `equal-clock`, a scope of its own.
Of each arm log(time) is regressed on log(clock) over its own samples: -1 is a kernel that waits for nothing but its SMs, 0 one
that waits for memory.  Times as found say what a user sees; these say what is left when the card's clock is taken out of it.
Misuse: an arm that draws more power makes its own clock lower, and that is an effect of the arm: it is not in these times.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from attribution.errors import DataError

CLOCK = "equal-clock"
STEEPEST, FLATTEST = -1.0, 0.0
"""A kernel cannot gain more from a clock than the clock, and does not lose by it."""


def slope(log_clock: np.ndarray, log_time: np.ndarray) -> float:
    """Slope of log(time) over log(clock), within what is possible; 0 when the clock did not vary."""
    spread = float(log_clock.var())
    if len(log_clock) < 3 or spread <= 0:
        return FLATTEST
    found = float(np.cov(log_clock, log_time, bias=True)[0, 1]) / spread
    return min(max(found, STEEPEST), FLATTEST)


def equal_clock(runs: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """The samples that have a clock, at the geometric mean clock of their question, scope and stage.

    Raises DataError when no sample has a clock.
    """
    known = times[times["clock_mhz"] > 0]
    if known.empty:
        raise DataError("no sample has an SM clock beside it: times cannot be brought to one clock")
    arms = runs.set_index("run")[["question", "arm"]].astype(str)
    joined = known.join(arms, on="run")
    point = ["question", "scope", "cache", "clock", "stage"]
    log_clock, log_time = np.log(joined["clock_mhz"]), np.log(joined["time_ns"])
    reference = log_clock.groupby([joined[c].astype(str) for c in point]).transform("mean")
    moved = np.empty(len(joined))
    for at in joined.groupby([joined[c].astype(str) for c in (*point, "arm")]).indices.values():
        own = log_clock.to_numpy()[at]
        steep = slope(own, log_time.to_numpy()[at])
        moved[at] = log_time.to_numpy()[at] - steep * (own - reference.to_numpy()[at])
    return known.assign(time_ns=np.exp(moved), clock=CLOCK)
