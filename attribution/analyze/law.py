"""The row law and its rivals: which quantity of an intervention predicts the time of ones that were held out?

In: one row an intervention: its time (samples per round, or one value) and the candidate quantities.
Out: one row an explanation: fit of T = a + b x, held-out errors, whether it survives, and why not.
Leave one level out: all interventions that share the held-out one's time-setting setting are predicted from the others.
Misuse: an explanation that survives is one that these interventions did not refute; two that vary together cannot be
told apart, and that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attribution.analyze.stats import intervals
from attribution.errors import DataError

Floats = NDArray[np.float64]
LIMIT = 0.02
"""Largest held-out error, relative, that an explanation may have and survive."""
RIVALS = {
    "busiest_sm_rows": "rows on the busiest SM",
    "mean_rows": "mean rows of an SM",
    "instructions": "instructions",
    "rows_per_batch": "rows per batch",
    "ctas": "number of CTAs",
}
"""Column -> explanation."""


@dataclass(frozen=True)
class Fit:
    """T = intercept + slope x, in ns and ns per unit of x, with 95 % intervals over rounds (NaN for one round)."""

    intercept_ns: float
    intercept_low_ns: float
    intercept_high_ns: float
    slope_ns: float
    slope_low_ns: float
    slope_high_ns: float


def fit(x: Floats, times: Floats, tick_ns: float = np.nan) -> Fit:
    """Least squares per round: `x` [k], `times` [rounds, k] ns.  Rounds are the units of the interval: clocks drift between them.

    Raises DataError when x does not vary.
    """
    if len(np.unique(x)) < 2:
        raise DataError(f"a law needs at least two values of its quantity; all {len(x)} interventions have {x[0]:g}")
    solve = np.linalg.pinv(np.stack([np.ones_like(x), x], axis=1))
    found = intervals((solve @ times.T), resolution=np.abs(solve).sum(axis=1) * tick_ns)
    bounds = [(float(found.center[i]), float(found.low[i]), float(found.high[i])) for i in (0, 1)]
    return Fit(*bounds[0], *bounds[1])


def held_out(x: Floats, times: Floats, groups: Sequence[object]) -> Floats:
    """Relative errors [rounds, k] of `times` [rounds, k] when an intervention's group is predicted from all others, round by round.

    NaN where the others take one value of x only; a quantity that never varies predicts the mean of the others.
    """
    label = pd.factorize(pd.Series(list(groups)))[0]
    errors = np.full(times.shape, np.nan)
    constant = len(np.unique(x)) < 2
    for group in np.unique(label):
        out = label == group
        if constant and not out.all():
            errors[:, out] = times[:, ~out].mean(axis=1, keepdims=True) / times[:, out] - 1
        elif len(np.unique(x[~out])) > 1:
            errors[:, out] = predicted(x[~out], times[:, ~out], x[out]) / times[:, out] - 1
    return errors


def predicted(x: Floats, times: Floats, at: Floats) -> Floats:
    """Times [rounds, m] at `at` [m] when T = a + b x is fitted, round by round, on `times` [rounds, k] at `x` [k]."""
    solve = np.linalg.pinv(np.stack([np.ones(len(x)), x], axis=1))
    fitted = times @ solve.T
    return np.asarray(fitted[:, :1] + fitted[:, 1:] * at)


def predict(train: pd.DataFrame, test: pd.DataFrame) -> Floats:
    """Relative errors of `test`'s times when T = a + b x is fitted on `train` only; [len(test)].  Raises DataError.

    Columns: `time_ns`, and x = `busiest_sm_rows`.
    """
    x = train["busiest_sm_rows"].to_numpy(float)
    if len(np.unique(x)) < 2:
        raise DataError("busiest_sm_rows does not vary in what the law is fitted on: give at least two values of it")
    slope, intercept = np.polyfit(x, train["time_ns"].to_numpy(float), 1)
    seen = test["time_ns"].to_numpy(float)
    return np.asarray((intercept + slope * test["busiest_sm_rows"].to_numpy(float)) / seen - 1)


def compare(
    interventions: pd.DataFrame,
    rounds: Floats | None = None,
    groups: Sequence[object] | None = None,
    limit: float = LIMIT,
    tick_ns: float = np.nan,
) -> pd.DataFrame:
    """Explanations side by side, the best first.

    interventions: columns `time_ns` and those of RIVALS that are known (NaN: not counted).  `rounds` [rounds, k]: the same
    times per round.  `groups`: interventions with one label are held out together (default: each by itself).  Columns out:
    explanation, quantity, intercept_ns, slope_ns and their bounds, error_rms, error_max (held out, relative), tested, verdict
    (survives, refuted, undecided, not tested), reason.  Raises DataError for fewer than three interventions.
    """
    if len(interventions) < 3:
        raise DataError(f"{len(interventions)} interventions: a law that is tested on held-out ones needs at least 3")
    times = interventions["time_ns"].to_numpy(float)
    per_round = times[None, :] if rounds is None else rounds
    names = list(range(len(times))) if groups is None else groups
    rows = [
        _explanation(q, text, interventions, per_round, names, limit, tick_ns)
        for q, text in RIVALS.items()
        if q in interventions
    ]
    out = pd.DataFrame(rows)
    if out.empty:
        raise DataError(f"no explanation to test: columns are {', '.join(map(str, interventions.columns))}")
    return _tied(out.sort_values("error_max", ignore_index=True), interventions)


def _explanation(
    quantity: str,
    text: str,
    table: pd.DataFrame,
    per_round: Floats,
    groups: Sequence[object],
    limit: float,
    tick_ns: float,
) -> dict[str, object]:
    x = table[quantity].to_numpy(float)
    row: dict[str, object] = {
        "explanation": text,
        "quantity": quantity,
        **dict.fromkeys(Fit.__dataclass_fields__, np.nan),
    }
    row |= {"error_rms": np.nan, "error_max": np.nan, "tested": 0}
    if np.isnan(x).any():
        return row | {"verdict": "not tested", "reason": f"{quantity} was not counted in every intervention"}
    note = f"it is {x[0]:g} in all of them, and the time is not; " if len(np.unique(x)) < 2 else ""
    if not note:
        row |= vars(fit(x, per_round, tick_ns))
    errors = held_out(x, per_round, groups)
    tested = ~np.isnan(errors[0])
    if not tested.any():
        return row | {
            "verdict": "not tested",
            "reason": "without the held-out ones it takes one value only",
        }
    found = intervals(errors[:, tested].T)
    size = np.abs(found.center)
    worst = int(size.argmax())
    row |= {"error_rms": float(np.sqrt((size**2).mean())), "error_max": float(size[worst])}
    row |= {"tested": int(tested.sum())}
    # At least this far off, by each intervention's interval over rounds (one round has none: then its value).
    near = np.where(np.sign(found.low) == np.sign(found.high), np.minimum(np.abs(found.low), np.abs(found.high)), 0.0)
    near = np.where(np.isnan(found.low), size, near)
    reason = f"{note}misses held-out interventions by up to {size[worst]:.1%}, allowed {limit:.1%}"
    if size[worst] <= limit:
        return row | {"verdict": "survives", "reason": reason}
    if near.max() > limit:
        return row | {"verdict": "refuted", "reason": reason}
    return row | {"verdict": "undecided", "reason": f"{reason}; the noise of the rounds allows less"}


def _tied(table: pd.DataFrame, interventions: pd.DataFrame) -> pd.DataFrame:
    """Says which survivors these interventions cannot tell apart (correlation above 0.999)."""
    alive = table.index[table["verdict"] == "survives"]
    for i in alive:
        twins = [
            str(table.loc[j, "explanation"])
            for j in alive
            if j != i and _together(*(interventions[table.loc[k, "quantity"]].to_numpy(float) for k in (i, j)))
        ]
        if twins:
            table.loc[i, "reason"] = (
                f"{table.loc[i, 'reason']}; varies together with {', '.join(twins)}: not told apart"
            )
    return table


def tail_share(busiest_rows: float, mean_rows: float, found: Fit) -> tuple[float, float, float]:
    """Fraction of T that the row law gives to the tail, b (busiest - mean) / (a + b busiest): low, value, high."""

    def share(slope: float) -> float:
        total = found.intercept_ns + found.slope_ns * busiest_rows
        return slope * (busiest_rows - mean_rows) / total

    return share(found.slope_low_ns), share(found.slope_ns), share(found.slope_high_ns)


def tail_only(busiest_before: float, busiest_after: float, measured_ratio: float) -> dict[str, float]:
    """The tail's own prediction of a change, time ratio before / after = busiest rows before / after, and what it leaves.

    `explained` is the share of the log-ratio: 1 when the tail alone accounts for it, NaN when nothing was measured to explain.
    """
    predicted = busiest_before / busiest_after
    whole = np.log(measured_ratio)
    return {
        "predicted_ratio": predicted,
        "measured_ratio": measured_ratio,
        "unexplained_factor": measured_ratio / predicted,
        "explained": float(np.log(predicted) / whole) if whole else float("nan"),
    }


def _together(one: Floats, other: Floats) -> bool:
    """Whether two quantities rise and fall together; one that never varies does neither."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return bool(abs(np.corrcoef(one, other)[0, 1]) > 0.999)
