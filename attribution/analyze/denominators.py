"""A ratio that moved: was it the numerator, the denominator, or both?  And ratios of counters that may be divided at all.

In: numerators and denominators before and after; or a table with the columns of `counters` and two of its arms.
Out: a `Split`, whose `sentence` says what moved.  log(ratio) = log(numerator) - log(denominator), so the two parts add up.
Misuse: a percentage that rose is no evidence of more work; a part that was derived from the ratio itself is marked
`implied`, and then the split is no test of the ratio.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats

from attribution.analyze.stats import REPORT_LEVEL
from attribution.declare import nearest
from attribution.errors import DataError, InputError

TOLERANCE = 0.01
"""Relative change up to which a part counts as not moved; so does one whose interval holds no change."""
Range = tuple[float, float]
UNKNOWN: Range = (math.nan, math.nan)

RULES: tuple[tuple[str, Callable[[re.Match[str]], tuple[str, str]]], ...] = (
    (r"(.+)\.(sum|avg)\.pct_of_peak_sustained_active", lambda m: (f"{m[1]}.{m[2]}", _cycles(m[1], "active"))),
    (r"(.+)\.(sum|avg)\.pct_of_peak_sustained_elapsed", lambda m: (f"{m[1]}.{m[2]}", _cycles(m[1], "elapsed"))),
    (r"(.+)\.(sum|avg)\.per_cycle_active", lambda m: (f"{m[1]}.{m[2]}", _cycles(m[1], "active"))),
    (r"(.+)\.(sum|avg)\.per_cycle_elapsed", lambda m: (f"{m[1]}.{m[2]}", _cycles(m[1], "elapsed"))),
    (r"(.+)\.(sum|avg)\.per_second", lambda m: (f"{m[1]}.{m[2]}", "gpu__time_duration.sum")),
)
"""Names of Nsight's ratio metrics -> numerator and denominator (constant peaks cancel in a change)."""


def _cycles(metric: str, kind: str) -> str:
    unit = metric.split("__")[0]
    return f"{unit if unit in ('sm', 'smsp', 'lts', 'l1tex', 'dram') else 'sm'}__cycles_{kind}.avg"


@dataclass(frozen=True)
class Split:
    """Changes as factors (after / before); `implied` names a part that was derived from the other two.

    The lows and highs are 95 % intervals of the factors over launches; NaN where too few were counted.
    """

    metric: str
    numerator: str
    denominator: str
    before: float
    after: float
    ratio_factor: float
    numerator_factor: float
    denominator_factor: float
    moved: str
    implied: str = ""
    note: str = ""
    numerator_low: float = math.nan
    numerator_high: float = math.nan
    denominator_low: float = math.nan
    denominator_high: float = math.nan

    @property
    def sentence(self) -> str:
        parts = {
            "denominator": "only the denominator moved: no more work was done, the same work is divided by less or more",
            "numerator": "only the numerator moved",
            "both": "numerator and denominator moved",
            "neither": "nothing moved",
        }
        note = f" ({self.implied} is implied by the ratio, not counted)" if self.implied else ""
        return (
            f"{self.metric}: {self.before:.6g} -> {self.after:.6g} (x {self.ratio_factor:.4f}) = {self.numerator} "
            f"x {self.numerator_factor:.4f}{_shown(self.numerator_low, self.numerator_high)} over {self.denominator} "
            f"x {self.denominator_factor:.4f}{_shown(self.denominator_low, self.denominator_high)}: "
            f"{parts[self.moved]}{note}" + (f"; {self.note}" if self.note else "")
        )


def _shown(low: float, high: float) -> str:
    """The interval, where it is known and wider than the digits that are printed."""
    ends = f"{low:.4f}", f"{high:.4f}"
    return "" if math.isnan(low) or ends[0] == ends[1] else f" [{', '.join(ends)}]"


def split(
    before: tuple[float, float],
    after: tuple[float, float],
    names: tuple[str, str, str] = ("ratio", "numerator", "denominator"),
    tolerance: float = TOLERANCE,
    implied: str = "",
    ranges: tuple[Range, Range] = (UNKNOWN, UNKNOWN),
) -> Split:
    """Split the change of numerator / denominator from `before` to `after`, each (numerator, denominator).

    `ranges`: of the two factors.

    Raises DataError where a part is not positive: its change has no factor.
    """
    for when, pair in (("before", before), ("after", after)):
        for name, value in zip(names[1:], pair, strict=True):
            if not value > 0:
                raise DataError(f"{names[0]}: {name} is {value:g} {when}: a change of it has no factor")
    up, down = after[0] / before[0], after[1] / before[1]
    moves = [
        abs(math.log(x)) > math.log1p(tolerance) and not low <= 1 <= high
        for x, (low, high) in zip((up, down), ranges, strict=True)
    ]
    moved = {(True, True): "both", (True, False): "numerator", (False, True): "denominator"}.get(
        (moves[0], moves[1]), "neither"
    )
    return Split(
        *names,
        before[0] / before[1],
        after[0] / after[1],
        up / down,
        up,
        down,
        moved,
        implied,
        "",
        *ranges[0],
        *ranges[1],
    )


def split_implied(
    ratio: tuple[float, float],
    known: tuple[float, float],
    names: tuple[str, str, str],
    known_is: str = "numerator",
) -> Split:
    """As `split`, from the ratio (before, after) and one part of it; the other part is implied by them."""
    if known_is == "numerator":
        pairs = [(n, n / r) for r, n in zip(ratio, known, strict=True)]
    else:
        pairs = [(r * d, d) for r, d in zip(ratio, known, strict=True)]
    return split(pairs[0], pairs[1], names, implied=names[2] if known_is == "numerator" else names[1])


def parts_of(metric: str) -> tuple[str, str]:
    """Numerator and denominator of a ratio metric by its name.  Raises InputError."""
    for pattern, parts in RULES:
        if found := re.fullmatch(pattern, metric):
            return parts(found)
    raise InputError(
        f"{metric}: not known as a ratio: such are Nsight's that end in .pct_of_peak_sustained_active or _elapsed, "
        ".per_cycle_active or _elapsed, and .per_second; of another, name the parts with --numerator and --denominator"
    )


def explain(
    counters: pd.DataFrame,
    arms: tuple[pd.DataFrame, pd.DataFrame],
    metric: str,
    parts: tuple[str, str] | None = None,
    data_dependent: bool = True,
) -> Split:
    """Why `metric` differs between the rows of two selections (base, arm) of `counters`.

    `counters` are the rows both were selected from (for the names in errors).  Sums run over instances and launches: the
    ratio is a ratio of sums.  One missing part is implied by the ratio's own value.  Raises DataError for counters of
    different passes on a data-dependent kernel, InputError for parts that were not collected.
    """
    up, down = parts or parts_of(metric)
    found = [[_total(rows, name) for name in (up, down, metric)] for rows in arms]
    have = [all(f[i] is not None for f in found) for i in range(3)]
    if have[0] and have[1]:
        for rows in arms if data_dependent else ():
            _one_pass(rows, up, down)
        sums = [(_known(rows, up), _known(rows, down)) for rows in arms]
        ranges = tuple(factor_range(*(_per_run(rows, name) for rows in arms)) for name in (up, down))
        found_split = split(sums[0], sums[1], (metric, up, down), ranges=ranges)  # type: ignore[arg-type]
        return replace(found_split, note=_unknown(arms, (up, down), data_dependent))
    if have[2] and (have[0] or have[1]):
        which, name = ("numerator", up) if have[0] else ("denominator", down)
        for rows in arms if data_dependent else ():
            _one_pass(rows, metric, name)
        ratios, known = [(_known(arms[0], n), _known(arms[1], n)) for n in (metric, name)]
        found_split = split_implied(ratios, known, (metric, up, down), which)
        return replace(found_split, note=_unknown(arms, (metric, name), data_dependent))
    missing = [n for n, h in zip((up, down), have[:2], strict=True) if not h]
    names = sorted(set(counters["metric"].astype(str)) - set(missing))
    like = nearest(missing[0], names) or f"; collected are {', '.join(names[:6])}" + (", ..." if len(names) > 6 else "")
    raise InputError(f"{metric}: not collected in both arms: {', '.join(missing)}{like}")


def _chosen(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows of a metric: its instances where it has any, else its rollups."""
    mine = rows[rows["metric"].astype(str) == name]
    instances = mine[mine["instance"].astype(str) != ""]
    return mine if instances.empty else instances


def _total(rows: pd.DataFrame, name: str) -> float | None:
    """Sum over launches and instances, per run; None where it is absent."""
    mine = _chosen(rows, name)
    if mine.empty or (mine["state"] == "absent").any() or mine["value"].isna().any():
        return None
    return float(_per_run(rows, name).mean())


def _per_run(rows: pd.DataFrame, name: str) -> np.ndarray:
    """The same sum of each run."""
    mine = _chosen(rows, name)
    return mine["value"].groupby(mine["run" if "run" in mine else "launch"]).sum().to_numpy(float)


def factor_range(before: np.ndarray, after: np.ndarray) -> Range:
    """95 % interval of mean(after) / mean(before), of launches [n] and [m] that are no pairs.

    Student's t of the logarithms with one variance for both: a variant is often counted once.  NaN for fewer than three values,
    or where one is not positive.
    """
    if not (before > 0).all() or not (after > 0).all():
        return UNKNOWN
    logs = [np.log(side) for side in (before, after)]
    freedom = sum(map(len, logs)) - 2
    if freedom < 1 or not all(map(len, logs)):
        return UNKNOWN
    variance = sum(float(((side - side.mean()) ** 2).sum()) for side in logs) / freedom
    width = float(stats.t.ppf((1 + REPORT_LEVEL) / 2, freedom)) * math.sqrt(variance * sum(1 / len(s) for s in logs))
    factor = float(after.mean() / before.mean())
    return factor * math.exp(-width), factor * math.exp(width)


def _known(rows: pd.DataFrame, name: str) -> float:
    found = _total(rows, name)
    assert found is not None
    return found


def _one_pass(rows: pd.DataFrame, first: str, second: str) -> None:
    """Raises DataError where the replay passes of two metrics differ: other passes may have changed the data in between."""
    passes = [sorted(set(_chosen(rows, n)["pass_group"].astype(int))) for n in (first, second)]
    if passes[0] == passes[1]:
        return
    one, other = (([p for p in mine if p not in its] or mine)[0] for mine, its in (passes, passes[::-1]))
    raise DataError(
        f"inconsistent passes: {first} was counted in pass {one}, {second} in pass {other}, on a kernel whose work depends on "
        "its data; collect both in one"
    )


def _unknown(arms: tuple[pd.DataFrame, pd.DataFrame], names: tuple[str, str], data_dependent: bool) -> str:
    """What to say when the file does not tell in which passes the two were counted."""
    passes = {int(p) for rows in arms for name in names for p in _chosen(rows, name)["pass_group"]}
    if not data_dependent or passes != {-1}:
        return ""
    return "the file does not say in which replay passes the two were counted: on data-dependent work they may not belong together"
