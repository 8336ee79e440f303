"""Two populations in one set of samples: found, reported as both, and missed when they are gone.

In: samples of one arm, any order.  Out: `Modes`, or None.
A median between two modes is a value that the machine never shows, and a ratio of two such medians
says how often each mode was visited, not how long the work takes.
Misuse: this looks for a clear gap. None does not prove that there is one population.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from attribution.analyze.stats import REPORT_LEVEL

LEAST_SAMPLES = 8


@dataclass(frozen=True)
class Modes:
    """Medians and numbers of samples of the lower and the upper mode, and the medians' 95 % intervals (NaN: too few samples)."""

    values: tuple[float, float]
    counts: tuple[int, int]
    ranges: tuple[tuple[float, float], tuple[float, float]]

    def __str__(self) -> str:
        each = [
            f"{value:.6g}{'' if not low < high else f' [{low:.6g}, {high:.6g}]'} x {count}"
            for value, (low, high), count in zip(self.values, self.ranges, self.counts, strict=True)
        ]
        return f"two modes: {' and '.join(each)}"


def two_modes(samples: ArrayLike, resolution: float = 0.0) -> Modes | None:
    """The two modes of `samples` [n], or None when no gap separates them.

    The samples are cut where the squared deviation within the two parts is least. It is a gap when
    each part holds a tenth of the samples (and three), and the distance between the parts is more
    than two `resolution` (the timer's tick, unit of the samples) and more than 1 + 40/n standard
    deviations within them. Simulated (20,000 sets each of 8 to 400 samples of one population): at
    most 0.3 % of normal sets pass, 0.7 % of log-normal ones (sigma 0.5), 1.9 % of exponential ones.
    """
    data = np.sort(np.asarray(samples, dtype=np.float64))
    count = len(data)
    if count < LEAST_SAMPLES:
        return None
    scaled = data - data.mean()  # Else the sums of squares lose the digits that matter.
    below = np.arange(1, count)
    total, squares = np.cumsum(scaled), np.cumsum(scaled**2)
    lower = squares[:-1] - total[:-1] ** 2 / below
    upper = squares[-1] - squares[:-1] - (total[-1] - total[:-1]) ** 2 / (count - below)
    least = max(3, -(-count // 10))
    within = (lower + upper)[least - 1 : count - least]
    cut = int(np.argmin(within)) + least
    spread = float(np.sqrt(max(within[cut - least], 0.0) / (count - 2)))
    gap = data[cut] - data[cut - 1]
    if gap <= max((1 + 40 / count) * spread, 2 * resolution, 1e-9 * abs(data[-1])):
        return None
    parts = data[:cut], data[cut:]
    return Modes(
        values=(float(np.median(parts[0])), float(np.median(parts[1]))),
        counts=(len(parts[0]), len(parts[1])),
        ranges=(_of_median(parts[0]), _of_median(parts[1])),
    )


def _of_median(part: NDArray[np.float64]) -> tuple[float, float]:
    """Interval of the median of sorted samples [n], whatever their distribution: as many lie below it as heads fall in n throws."""
    skipped = int(stats.binom.ppf((1 - REPORT_LEVEL) / 2, len(part), 0.5))
    return (float(part[skipped - 1]), float(part[-skipped])) if skipped else (math.nan, math.nan)


def lost_effect(plain: ArrayLike, traced: ArrayLike, resolution: float = 0.0) -> str:
    """What tracing did to the modes of the plain build, in a sentence; '' when nothing is lost."""
    before, after = two_modes(plain, resolution), two_modes(traced, resolution)
    if before is None or after is not None:
        return ""
    middle = float(np.median(np.asarray(traced, dtype=np.float64)))
    return (
        f"the plain build has {before}; the traced one has a single mode at {middle:.6g}: "
        "it has lost the effect, and its trace cannot explain it"
    )
