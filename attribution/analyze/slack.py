"""Slack: a calibrated delay is injected into one role and swept; where does the whole begin to follow, and how steeply?

In: injected delay per arm in ns on the SM that finishes last, and the whole's time per round and arm.
Out: `Slack`: T = T0 + slope x max(0, delay - knee).  Knee = how much longer the role may take unnoticed; slope = its
criticality beyond that (0 nobody waits for it, 1 everybody does).  Method: Coz, SOSP 2015, with a real delay for the virtual one.
Misuse: a knee above 0 says that a faster role does not help; a knee of 0 says that it may, until another role takes over.
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
KNEES = 201
"""Positions of the knee that are tried, from 0 to the largest delay."""
_SEED = 20240229


@dataclass(frozen=True)
class Slack:
    """ns and ns per ns, with 95 % intervals over rounds.  verdict: `slack`, `critical`, `hidden` or `undecided`."""

    role: str
    knee_ns: float
    knee_low_ns: float
    knee_high_ns: float
    slope: float
    slope_low: float
    slope_high: float
    base_ns: float
    largest_ns: float
    verdict: str
    reason: str

    def __str__(self) -> str:
        return f"{self.role}: {self.verdict}; {self.reason}"


def fit(delay_ns: Floats, times: Floats, role: str = "") -> Slack:
    """The hinge of `times` [rounds, k] ns over `delay_ns` [k] (one of them 0).

    Rounds are scaled to a common level first (clocks drift); intervals are bootstraps over rounds, widened by
    Student's t.  Raises DataError for fewer than four delays, none of 0, or fewer than five rounds.
    """
    order = np.argsort(delay_ns)
    delay, values = np.asarray(delay_ns, float)[order], np.asarray(times, float)[:, order]
    if len(np.unique(delay)) < 4 or delay[0] != 0:
        shown = ", ".join(f"{d:g}" for d in delay)
        raise DataError(f"slack of {role or 'a role'}: delays are {shown} ns: needs 0 and at least three more")
    rounds = len(values)
    if rounds < 5:
        raise DataError(f"slack of {role or 'a role'}: {rounds} rounds; an interval needs at least 5")
    level = np.exp(np.log(values).mean(axis=1, keepdims=True))
    scaled = values / level * level.mean()
    weights = np.random.default_rng(_SEED).multinomial(rounds, np.full(rounds, 1 / rounds), RESAMPLES) / rounds
    knees, slopes, bases = _hinges(delay, np.vstack([scaled.mean(axis=0), weights @ scaled]))
    widen = float(stats.t.ppf(0.975, rounds - 1) / stats.norm.ppf(0.975) * math.sqrt(rounds / (rounds - 1)))
    knee = _bounds(knees, widen)
    slope = _bounds(slopes, widen)
    verdict, reason = _judge(knee, slope, float(delay[-1]), float(bases[0]), float(delay[1]))
    return Slack(
        role, knees[0], max(knee[0], 0.0), min(knee[1], float(delay[-1])), slopes[0], *slope, float(bases[0]),
        float(delay[-1]), verdict, reason,
    )  # fmt: skip


def _hinges(delay: Floats, times: Floats) -> tuple[Floats, Floats, Floats]:
    """Least-squares knee, slope and base of each row of `times` [m, k]."""
    # A knee needs two delays beyond it, else the slope is one point's noise.
    tried = np.linspace(0, delay[-2], KNEES)
    bend = np.maximum(0, delay[None, :] - tried[:, None])
    centered = bend - bend.mean(axis=1, keepdims=True)
    power = (centered**2).sum(axis=1)
    product = times @ centered.T
    gain = np.where(product > 0, product, 0.0) ** 2 / power
    best = gain.argmax(axis=1)
    slopes = product[np.arange(len(times)), best] / power[best]
    bases = times.mean(axis=1) - slopes * bend.mean(axis=1)[best]
    return tried[best], slopes, bases


def _bounds(found: Floats, widen: float) -> tuple[float, float]:
    """Widened percentile bounds of resamples found[1:] around found[0]."""
    low, high = np.quantile(found[1:], [0.025, 0.975])
    return float(found[0] + (low - found[0]) * widen), float(found[0] + (high - found[0]) * widen)


def _judge(
    knee: tuple[float, float], slope: tuple[float, float], largest: float, base: float, first: float
) -> tuple[str, str]:
    if slope[0] <= 0:
        return "hidden", f"no delay up to {largest:.4g} ns ({largest / base:.1%} of the whole) shows in the whole"
    if knee[0] > 0:
        return "slack", f"at least {knee[0]:.4g} ns of delay ({knee[0] / base:.1%} of the whole) do not show"
    if knee[1] < first:
        return "critical", f"the whole follows the first delay, with {slope[0]:.2f} to {slope[1]:.2f} ns per ns"
    return "undecided", f"the knee lies between 0 and {knee[1]:.4g} ns"


def speedup(found: Slack, processing_ns: float, total_ns: float, faster: float) -> tuple[float, float]:
    """Predicted relative change of the whole (negative is faster), low and high, when the role takes `faster` (0.26) less.

    Below a knee nothing is gained.  For a critical role the bound assumes that no other role takes over, so `low` is the most
    that can be gained.
    """
    if found.verdict in ("slack", "hidden"):
        return 0.0, 0.0
    gained = faster * processing_ns / total_ns
    most = -gained * min(found.slope_high, 1.0)
    least = -gained * max(found.slope_low, 0.0) if found.verdict == "critical" else 0.0
    return most, least


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
