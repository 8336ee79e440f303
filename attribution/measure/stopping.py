"""When to stop: rounds go on until every paired ratio is as narrow as asked, or a budget ends.

In: log-ratios (arm / base) of finished rounds, a precision (0.002 is +-0.2 %), a budget.
Out: `Decision`.  It looks only at the ends of whole Williams designs, so that order stays balanced,
and at the width of the interval, never at where it lies: stopping when a difference looks large is
how noise becomes a finding.
Misuse: a budget that ended is no verdict; what was not reached stays undecided.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attribution.errors import InputError

LEVEL = 0.98
"""Coverage of the interval whose half-width is compared, as the verdicts have it."""
LEAST_PAIRS = 6
"""Below this a standard deviation is hardly known, and a narrow interval may be luck."""


@dataclass(frozen=True)
class Rule:
    """Half-width asked for (relative), and the seconds after which no further design starts."""

    precision: float
    seconds: float = math.inf


@dataclass(frozen=True)
class Decision:
    """Whether to stop, whether every interval is narrow enough, and the half-widths (relative)."""

    stop: bool
    reached: bool
    half_widths: Mapping[str, float]
    reason: str


@dataclass
class Progress:
    """Log-ratios so far per arm, and how long designs take."""

    rule: Rule
    began_s: float = field(default_factory=time.monotonic)
    designs: int = 0

    def decide(self, ratios: Mapping[str, Sequence[float]], now_s: float | None = None) -> Decision:
        """The decision at the end of a whole design."""
        self.designs += 1
        spent = (time.monotonic() if now_s is None else now_s) - self.began_s
        widths = {arm: half_width(values) for arm, values in ratios.items()}
        reached = bool(widths) and all(w <= self.rule.precision for w in widths.values())
        next_ends = spent * (self.designs + 1) / self.designs
        widest = max(widths.values(), default=math.inf)
        asked = f"+-{100 * self.rule.precision:g} %"
        if reached:
            return Decision(True, True, widths, f"+-{100 * widest:.3g} % of {asked} asked")
        reason = f"+-{100 * widest:.3g} %, not yet {asked}"
        if next_ends > self.rule.seconds:
            reason += f"; the budget of {self.rule.seconds:g} s is spent"
            return Decision(True, False, widths, reason)
        return Decision(False, False, widths, reason)


def half_width(log_ratios: Sequence[float]) -> float:
    """Half-width of the mean's interval, relative; inf below LEAST_PAIRS or without any spread.

    Student's t on the pairs that autocorrelated rounds are worth (lag one, never counted up).
    """
    import numpy as np
    from scipy import stats

    values = np.asarray(log_ratios, np.float64)
    count = len(values)
    if count < LEAST_PAIRS:
        return math.inf
    spread = float(values.std(ddof=1))
    if not spread > 0:
        return math.inf  # equal readings: the timer is coarse, not the machine still
    away = values - values.mean()
    lag = float((away[1:] * away[:-1]).sum() / (away * away).sum())
    worth = min(max(count * (1 - lag) / (1 + lag), 2.0), count)
    return float(stats.t.ppf((1 + LEVEL) / 2, worth - 1) * spread / math.sqrt(worth))


def precision_of(text: str) -> float:
    """`0.2%` or `0.002` -> 0.002.  Raises ValueError."""
    number = text.strip()
    value = float(number[:-1]) / 100 if number.endswith("%") else float(number)
    if not 0 < value < 1:
        raise ValueError(text)
    return value


def share(option: str, text: str) -> float:
    """What `precision_of` makes of an option's text.  Raises InputError."""
    try:
        return precision_of(text)
    except ValueError:
        raise InputError(f"{option} {text}: allowed is a share such as 0.2% or 0.002") from None
