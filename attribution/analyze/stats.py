"""Intervals for paired measurements, and the other statistics that a verdict rests on.

In: numpy arrays, one value per pair (round), in the order in which they were measured.
Out: `Intervals`, minimum detectable effects and effects of the order; NaN where a value is undefined.
Misuse: pass pairs, not pooled samples: clocks wander by more than most effects, and only pairing
removes that. Keep the order: autocorrelation cannot be seen in sorted values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from attribution.errors import DataError

Floats = NDArray[np.float64]

REPORT_LEVEL = 0.95
"""Coverage of the intervals that are printed."""
VERDICT_LEVEL = 0.98
"""Coverage of the intervals that verdicts use: made for 2 % false ones, so that 5 % has room."""
BOOTSTRAP_PAIRS = 30
"""From how many pairs on BCa is used: below, it covers too little (0.85 at 5 pairs, 0.92 at 12)."""
_RESAMPLES = 4999
_SEED = 20240229  # The same data must give the same interval: a report is recomputed by `attr verify`.


@dataclass(frozen=True)
class Intervals:
    """Means of k series with their intervals; arrays of shape [k], NaN bounds where there is none.

    `effective` is the number of independent pairs that the series is worth, `method` what was used.
    """

    center: Floats
    low: Floats
    high: Floats
    effective: Floats
    level: float
    pairs: int
    method: str


def intervals(values: ArrayLike, level: float = REPORT_LEVEL, resolution: ArrayLike = np.nan) -> Intervals:
    """Interval of the mean of each row of `values` [k, n] (or [n]), in measured order.

    BCa bootstrap from 30 pairs on (Efron, Better bootstrap confidence intervals, JASA 82, 1987),
    Student's t below; both widened where the pairs are autocorrelated. A series that varies less
    than `resolution` (unit of the values; NaN is "not known") gets an interval of +- resolution,
    and none when that is not known: equal readings say that the timer is coarse, not that nothing
    varies. One pair has no interval.
    """
    data = np.atleast_2d(np.asarray(values, dtype=np.float64))
    count, pairs = data.shape
    center = data.mean(axis=1) if pairs else np.full(count, np.nan)
    if pairs < 2:
        none = np.full(count, np.nan)
        return Intervals(center, none, none.copy(), np.full(count, float(pairs)), level, pairs, "")
    effective = effective_pairs(data)
    if pairs >= BOOTSTRAP_PAIRS:
        below, above = _bootstrap(data, center, effective, level)
        method = "BCa"
    else:
        below = above = student_width(data, effective, level)
        method = "t"
    least = np.broadcast_to(np.asarray(resolution, dtype=np.float64), (count,))
    spread = data.std(axis=1, ddof=1)
    # Rounding makes [x, x, x] vary by an ulp of its own size: that is constant too.
    constant = spread <= 1e-12 * np.maximum(np.abs(center), 1.0)
    coarse = constant | (spread < least)
    below = np.where(coarse, least, below)
    above = np.where(coarse, least, above)
    return Intervals(center, center - below, center + above, effective, level, pairs, method)


def lag_one(values: Floats) -> Floats:
    """Lag-1 autocorrelation of each row of [k, n], corrected for its bias; 0 for constant rows.

    The plain estimate is low by about (1 + 3 rho) / n (Marriott and Pope, Bias in the estimation of
    autocorrelations, Biometrika 41, 1954); the correction solves that for rho.
    """
    pairs = values.shape[1]
    around: Floats = values - values.mean(axis=1, keepdims=True)
    power = (around**2).sum(axis=1)
    product = (around[:, 1:] * around[:, :-1]).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        plain: Floats = np.where(power > 0, product / power, 0.0)
    if pairs <= 4:
        return plain
    return np.asarray((plain + 1 / pairs) / (1 - 3 / pairs))


def effective_pairs(values: Floats) -> Floats:
    """How many independent pairs each row of [k, n] is worth: n (1 - rho) / (1 + rho), at most n.

    Source: Bayley and Hammersley, The effective number of independent observations in an
    autocorrelated time series, JRSS supplement 8 (1946). Half a standard error is added to rho:
    taken as it is, it is too low every other time, and then the interval is too short.
    """
    pairs = values.shape[1]
    rho = np.clip(lag_one(values) + 0.5 / np.sqrt(pairs), 0.0, 0.95)
    return np.asarray(np.maximum(pairs * (1 - rho) / (1 + rho), min(2.0, float(pairs))))


def _standard_error(values: Floats, effective: Floats) -> Floats:
    """Standard error of each row's mean; the variance, too low under autocorrelation, corrected."""
    pairs = values.shape[1]
    lost: Floats = (1 - 1 / pairs) / np.maximum(1 - 1 / effective, 0.3)
    variance: Floats = values.var(axis=1, ddof=1) * lost
    return np.asarray(np.sqrt(variance / effective), dtype=np.float64)


def _freedom(values: Floats, effective: Floats) -> Floats:
    """Degrees of freedom: half-way from the effective to the real number of pairs, minus one.

    The effective number is itself uncertain; alone it makes the interval three times too wide in
    the series where it comes out near two.
    """
    return np.asarray(np.maximum((effective + values.shape[1]) / 2 - 1, 1.0))


def student_width(values: Floats, effective: Floats, level: float) -> Floats:
    """Half-width of the t interval of each row's mean, with the effective number of pairs.

    Simulated, 4000 series of 20 pairs: the 98 % interval misses 1.0, 2.1, 3.1, 4.6 % and the 95 %
    one 2.5, 4.7, 5.7, 7.1 % at AR(1) of 0, 0.3, 0.5, 0.7; unwidened at 0.5 they miss 17 and 26 %.
    """
    quantile = stats.t.ppf((1 + level) / 2, _freedom(values, effective))
    return np.asarray(quantile * _standard_error(values, effective))


def _bootstrap(data: Floats, center: Floats, effective: Floats, level: float) -> tuple[Floats, Floats]:
    """Distances of the BCa bounds below and above the mean, widened for autocorrelation."""
    below, above = np.full(len(data), np.nan), np.full(len(data), np.nan)
    varies = data.std(axis=1) > 0  # Constant rows give NaN and a warning.
    if varies.any():
        found = stats.bootstrap(
            (data[varies],),
            np.mean,
            axis=1,
            vectorized=True,
            confidence_level=level,
            n_resamples=_RESAMPLES,
            method="BCa",
            batch=max(1, 2_000_000 // data[varies].size),
            random_state=np.random.default_rng(_SEED),
        ).confidence_interval
        widen = np.sqrt(data.shape[1] / effective[varies])
        below[varies] = (center[varies] - found.low) * widen
        above[varies] = (found.high - center[varies]) * widen
    return below, above


def detectable_effect(values: ArrayLike) -> Floats:
    """Smallest true mean that a two-sided 5 % test would find in four of five cases; shape [k].

    (t[0.975] + t[0.8]) standard errors: Bloom, Minimum detectable effects, Evaluation Review
    19 (1995). In the unit of the values (for log-ratios a log-ratio); NaN below two pairs and for
    constant rows, about which nothing is known.
    """
    data = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if data.shape[1] < 2:
        return np.full(len(data), np.nan)
    effective = effective_pairs(data)
    freedom = _freedom(data, effective)
    multiplier = stats.t.ppf(0.975, freedom) + stats.t.ppf(0.8, freedom)
    effect = multiplier * _standard_error(data, effective)
    return np.where(effect > 0, effect, np.nan)


def order_effects(frame: pd.DataFrame, by: str = "position") -> pd.DataFrame:
    """How much slower an arm is for its place (`by` = position) or its predecessor.

    Least squares of log(time_ns) on round, arm and `by`, for a frame with these columns and one row
    per run; rounds are taken out first, as means (Frisch and Waugh, Econometrica 1, 1933). Out: a row
    per level: level, ratio (against the mean of the levels), low, high (95 %), p_value (F test of all
    levels together, the same in each row). Empty where the design cannot tell: rotated arms have one
    predecessor each. Raises DataError.
    """
    if missing := [c for c in ("round", "arm", "time_ns", by) if c not in frame]:
        raise DataError(f"order effects need column {missing[0]!r}; there are: {', '.join(map(str, frame))}")
    out = ["level", "ratio", "low", "high", "p_value"]
    used = frame[["round", "arm", by, "time_ns"]].astype({"arm": str})
    level_of, levels = pd.factorize(used[by].to_numpy(), sort=True)
    arm_of, arms = pd.factorize(used["arm"])
    round_of, rounds = pd.factorize(used["round"])
    # Sum-to-zero coding: a level's effect is against the mean of the levels.
    code = np.vstack([np.eye(len(levels) - 1), -np.ones(len(levels) - 1)])
    counts = np.bincount(round_of)

    def within(values: Floats) -> Floats:
        """Rows of `values` less the mean of their round."""
        sums = np.zeros((len(rounds), values.shape[1]))
        np.add.at(sums, round_of, values)
        return np.asarray(values - (sums / counts[:, None])[round_of])

    plain = within(np.eye(len(arms))[arm_of][:, 1:])
    full = np.hstack([plain, within(code[level_of])])
    freedom = len(full) - len(rounds) - full.shape[1]
    if len(levels) < 2 or freedom < 1 or np.linalg.matrix_rank(full) < full.shape[1]:
        return pd.DataFrame(columns=out)
    log_time = within(np.log(used[["time_ns"]].to_numpy(dtype=np.float64)))[:, 0]
    inverse = np.linalg.pinv(full)
    beta = inverse @ log_time
    residual = float(((log_time - full @ beta) ** 2).sum())
    reduced = float(((log_time - plain @ (np.linalg.pinv(plain) @ log_time)) ** 2).sum())
    variance = residual / freedom
    last = slice(plain.shape[1], None)
    effect = code @ beta[last]
    spread = np.sqrt(np.diag(code @ (inverse @ inverse.T)[last, last] @ code.T) * variance)
    f_value = (reduced - residual) / (len(levels) - 1) / variance if variance > 0 else np.inf
    width = stats.t.ppf(0.975, freedom) * spread
    columns = (levels, np.exp(effect), np.exp(effect - width), np.exp(effect + width))
    found = pd.DataFrame(dict(zip(out, columns, strict=False)))
    return found.assign(p_value=float(stats.f.sf(f_value, len(levels) - 1, freedom)))
