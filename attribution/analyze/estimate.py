"""How much two arms differ: ratio and exposed time of their paired rounds, and what those span with all combinations of modes.

In: paired rounds, in order; the combinations of the two arms' modes.  Out: fields of a `Contrast`, by name.
Misuse: an estimate is no verdict; that takes the margin, the floor and every mode (`verdict.settle`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from attribution.analyze import stats
from attribution.analyze.modes import Combination


def estimate(pairs: pd.DataFrame, null_pairs: pd.DataFrame | None, tick_ns: float) -> dict[str, Any]:
    """Ratio, exposed time, detectable effect and floor of paired rounds, as fields of a Contrast.

    Frames have columns base_ns and arm_ns in the order of the rounds. Key `log` holds center, low
    and high of the verdict's log-ratio.
    """
    base_ns, arm_ns = pairs["base_ns"].to_numpy(float), pairs["arm_ns"].to_numpy(float)
    if not len(pairs):
        return {"log": (math.nan,) * 3, "null_floor": math.nan}
    middle = float(np.median(base_ns)), float(np.median(arm_ns))
    tick = tick_ns / middle[0] + tick_ns / middle[1]
    ratio = np.log(arm_ns / base_ns)
    shown = stats.intervals(ratio, stats.REPORT_LEVEL, tick)
    strict = stats.intervals(ratio, stats.VERDICT_LEVEL, tick)
    exposed = stats.intervals(base_ns - arm_ns, stats.REPORT_LEVEL, 2 * tick_ns)
    floor = math.nan
    if null_pairs is not None and len(null_pairs):
        null = np.log(null_pairs["arm_ns"].to_numpy(float) / null_pairs["base_ns"].to_numpy(float))
        bounds = stats.intervals(null, stats.REPORT_LEVEL, tick)
        floor = max(abs(float(bounds.low[0])), abs(float(bounds.high[0])))
    return {
        "log": (float(strict.center[0]), float(strict.low[0]), float(strict.high[0])),
        "pairs": len(pairs),
        "effective_pairs": float(shown.effective[0]),
        "base_ns": middle[0],
        "arm_ns": middle[1],
        "time_ratio": float(np.exp(shown.center[0])),
        "time_ratio_low": float(np.exp(shown.low[0])),
        "time_ratio_high": float(np.exp(shown.high[0])),
        "exposed_ns": float(exposed.center[0]),
        "exposed_low_ns": float(exposed.low[0]),
        "exposed_high_ns": float(exposed.high[0]),
        "detectable": float(np.expm1(stats.detectable_effect(ratio)[0])),
        "null_floor": floor,
        "method": shown.method,
    }


def spanned(found: Mapping[str, Any], by_modes: Sequence[Combination]) -> dict[str, float]:
    """The fields `modes_*`: of the interval in `found` and those of all combinations the least low and the largest high.

    NaN where one of them is.
    """
    both = {
        "time_ratio": ("", [(math.exp(one.log[1]), math.exp(one.log[2])) for one in by_modes]),
        "exposed": ("_ns", [one.exposed_ns for one in by_modes]),
    }
    out: dict[str, float] = {}
    for quantity, (unit, intervals) in both.items():
        low, high = f"{quantity}_low{unit}", f"{quantity}_high{unit}"
        lows, highs = zip((found.get(low, math.nan), found.get(high, math.nan)), *intervals, strict=True)
        out |= {f"modes_{low}": float(np.min(lows)), f"modes_{high}": float(np.max(highs))}
    return out
