"""Slack: a calibrated delay is injected into one role and swept; where does the whole begin to follow, and how steeply?

In: injected delay per arm in ns on the SM that finishes last, and the whole's time per round and arm.
Out: `Slack`: T = T0 + before x delay up to the knee, and `slope` x delay beyond.  `before` is what always shows (a longer
drain), knee - how much longer the role may take before others wait for it, `slope` its criticality then (1: all of it shows).
Method: Coz, SOSP 2015, with a real delay for the virtual one.
Where `before` is more than half of `slope` the role has no slack to speak of: it is critical from the first delay on.
Misuse: a knee above 0 says that a faster role gains no more than `before`; without a knee it may, until another takes over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from attribution.errors import DataError

Floats = NDArray[np.float64]
RESAMPLES = 999
KNEES = 101
"""Positions of the knee that are tried: from 0 to the last delay but one, and again where the first pass leaves it possible."""
BEND = 15.0
"""Gain of a knee over a straight line, in variances of the noise, from which on it is believed: with 7 delays and 20 rounds
of a straight line it was exceeded in 1 of 500 planted sweeps (bench/attribution.py counts them)."""
SHOWS = 0.5
"""Part of the slope beyond a knee from which on what shows before it is no drain any more."""
_SEED = 20240229


@dataclass(frozen=True)
class Slack:
    """ns and ns per ns, with 95 % intervals over rounds.  verdict: `slack`, `critical`, `hidden` or `undecided`.

    Without a knee `before` and `slope` are the one slope of the line and the knee is 0.  `misfit`: of the mean times, the largest
    distance from the line as a share of the whole; intervals know nothing of it.
    """

    role: str
    knee_ns: float
    knee_low_ns: float
    knee_high_ns: float
    slope: float
    slope_low: float
    slope_high: float
    before: float
    before_low: float
    before_high: float
    base_ns: float
    largest_ns: float
    misfit: float
    verdict: str
    reason: str

    def __str__(self) -> str:
        return f"{self.role}: {self.verdict}; {self.reason}"


def fit(delay_ns: Floats, times: Floats, role: str = "") -> Slack:
    """The bent line of `times` [rounds, k] ns over `delay_ns` [k] (one of them 0).

    Rounds are scaled to a common level first (clocks drift); intervals are bootstraps over rounds, widened by
    Student's t.  Raises DataError for fewer than five delays, none of 0, or fewer than five rounds.
    """
    order = np.argsort(delay_ns)
    delay, values = np.asarray(delay_ns, float)[order], np.asarray(times, float)[:, order]
    if len(np.unique(delay)) < 5 or delay[0] != 0:
        shown = ", ".join(f"{d:g}" for d in delay)
        raise DataError(f"slack of {role or 'a role'}: delays are {shown} ns: needs 0 and at least four more")
    rounds = len(values)
    if rounds < 5:
        raise DataError(f"slack of {role or 'a role'}: {rounds} rounds; an interval needs at least 5")
    level = np.exp(np.log(values).mean(axis=1, keepdims=True))
    scaled = values / level * level.mean()
    weights = np.random.default_rng(_SEED).multinomial(rounds, np.full(rounds, 1 / rounds), RESAMPLES) / rounds
    samples = np.vstack([scaled.mean(axis=0), weights @ scaled])
    noise = float(scaled.var(axis=0, ddof=1).mean()) / rounds
    coarse = _bent(delay, samples[:1], np.linspace(0, delay[-2], KNEES))[1]
    near = coarse[coarse[:, 1] <= coarse[:, 1].min() + 6**2 * noise, 0]
    step = delay[-2] / (KNEES - 1)
    region = np.linspace(max(near.min() - step, 0), min(near.max() + step, delay[-2]), KNEES)
    found, profile = _bent(delay, samples, region)
    bent = _line_squares(delay, samples[0]) - profile[:, 1].min() > BEND * noise
    if not bent:
        found = _straight(delay, samples)
    widen = float(stats.t.ppf(0.975, rounds - 1) / stats.norm.ppf(0.975) * math.sqrt(rounds / (rounds - 1)))
    knee, before, slope = (_bounds(found[:, i], widen) for i in (1, 2, 3))
    if bent:
        # Resampled knees stick to the delays that were measured; what the squares allow is added.
        allowed = profile[profile[:, 1] <= profile[:, 1].min() + noise * float(stats.t.ppf(0.975, rounds - 1)) ** 2, 0]
        knee = (min(knee[0], float(allowed.min())), max(knee[1], float(allowed.max())))
    verdict, reason = _judge(knee, slope, before, delay, float(found[0, 0]))
    knee = (max(knee[0], 0.0), min(knee[1], float(delay[-1])))
    center = [float(v) for v in found[0]]
    off = _misfit(found[0], delay, samples[0])
    return Slack(
        role, center[1], *knee, center[3], *slope, center[2], *before, center[0], float(delay[-1]), off, verdict, reason
    )  # fmt: skip


def _misfit(found: Floats, delay: Floats, times: Floats) -> float:
    """Largest distance of `times` [k] from the line of one row of `_bent`, over its base."""
    base, knee, before, slope = found
    line = base + before * np.minimum(delay, knee) + slope * np.maximum(0, delay - knee)
    return float(np.abs(times - line).max() / base)


def _straight(delay: Floats, times: Floats) -> Floats:
    """Base, knee 0, and twice the slope of each row of `times` [m, k]; shape [m, 4]."""
    around = delay - delay.mean()
    slope = times @ around / (around @ around)
    return np.stack([times.mean(axis=1) - slope * delay.mean(), np.zeros(len(times)), slope, slope], axis=1)


def _line_squares(delay: Floats, times: Floats) -> float:
    """Sum of squares that a straight line leaves of `times` [k]."""
    base, _, slope, _ = _straight(delay, times[None, :])[0]
    return float(((times - base - slope * delay) ** 2).sum())


def _bent(delay: Floats, times: Floats, knees: Floats) -> tuple[Floats, Floats]:
    """Base, knee, slope before and after of each row of `times` [m, k]; and (knee, squares left) of the first row [knees, 2].

    Between 0 and the first delay there is nothing to see a slope before the knee with: there it is 0.
    """
    best = np.full(len(times), np.inf)
    found = np.zeros((len(times), 4))
    profile = []
    for knee in knees:
        bend = np.maximum(0, delay - knee)
        left = np.inf
        for design in ([np.ones_like(delay), bend], [np.ones_like(delay), delay, bend]):
            if len(design) == 3 and knee < delay[1]:
                continue
            basis = np.stack(design, axis=1)
            solved = times @ np.linalg.pinv(basis).T
            squares = ((times - solved @ basis.T) ** 2).sum(axis=1)
            before = solved[:, 1] if len(design) == 3 else np.zeros(len(times))
            possible = (before >= 0) & (solved[:, -1] >= 0)
            better = (squares < best * (1 - 1e-12)) & possible
            left = min(left, float(squares[0])) if possible[0] else left
            best[better] = squares[better]
            after = before + solved[:, -1]
            found[better] = np.stack([solved[:, 0], np.full(len(times), knee), before, after], axis=1)[better]
        profile.append((knee, left))
    return found, np.array(profile)


def _bounds(found: Floats, widen: float) -> tuple[float, float]:
    """Widened percentile bounds of resamples found[1:] around found[0]."""
    low, high = np.quantile(found[1:], [0.025, 0.975])
    return float(found[0] + (low - found[0]) * widen), float(found[0] + (high - found[0]) * widen)


def _judge(
    knee: tuple[float, float], slope: tuple[float, float], before: tuple[float, float], delay: Floats, base: float
) -> tuple[str, str]:
    if slope[0] <= 0:
        return "hidden", f"no delay up to {delay[-1]:.4g} ns ({delay[-1] / base:.1%} of the whole) shows in the whole"
    if knee[0] > 0 and before[0] > SHOWS * slope[1]:
        follows = f"the whole follows from the first delay on, with {before[0]:.2f} to {before[1]:.2f} ns per ns"
        return (
            "critical",
            f"{follows}, and from {knee[0]:.4g} to {knee[1]:.4g} ns on with {slope[0]:.2f} to {slope[1]:.2f}",
        )
    if knee[0] > 0:
        shows = f", but for {max(before[0], 0):.2f} to {before[1]:.2f} ns per ns" if before[1] > 0 else ""
        return "slack", f"at least {knee[0]:.4g} ns of delay ({knee[0] / base:.1%} of the whole) do not show{shows}"
    if knee[1] < delay[1]:
        return "critical", f"the whole follows from the first delay on, with {slope[0]:.2f} to {slope[1]:.2f} ns per ns"
    return "undecided", f"the knee lies between 0 and {knee[1]:.4g} ns"


def speedup(found: Slack, processing_ns: float, total_ns: float, faster: float) -> tuple[float, float]:
    """Predicted relative change of the whole (negative is faster), most and least, when the role takes `faster` (0.26) less.

    With a knee only what shows before it is gained.  For a critical role this holds until another role takes over, so then
    `most` is a bound.
    """
    gained = faster * processing_ns / total_ns
    low, high = (0.0, found.slope_high) if found.verdict == "undecided" else (found.before_low, found.before_high)
    # 0.0 - x: a change of -0 would be printed as such.
    return 0.0 - gained * min(max(high, 0.0), 1.0), 0.0 - gained * max(low, 0.0)


def from_waits(
    processing: float, wait_ready: float, others_wait: float, faster: float, drain: float = 0.0
) -> dict[str, float]:
    """What waits alone predict of a role that takes `faster` (0.26) less; all times of one window, one unit.

    The role's loop is processing + wait_ready long.  Others wait for it `others_wait`; only that, and the part of `drain`
    (its processing that nothing hides at the end) that gets shorter, can leave the whole.  Out: hidden_share of the processing
    saved, whole_change (relative, at most 0) and what wait_ready should become.
    """
    loop = processing + wait_ready
    saved = faster * processing
    leaves = min(saved, others_wait + faster * drain)
    return {
        "saved": saved,
        "whole_change": -leaves / loop,
        "hidden_share": 1 - leaves / saved if saved else math.nan,
        "wait_ready_after": wait_ready + saved - leaves,
    }
