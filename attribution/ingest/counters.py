"""Questions to a table of counters that are wrong when asked carelessly.

In: `metrics`, `launches`.  Out: values with their state, ratios with their reason, or a refusal.
Misuse: a metric that is not in the file is absent; treating it as 0 finds the bottleneck that was measured, not the one
that is there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from attribution.errors import DataError, InputError
from attribution.ingest.names import matches


@dataclass(frozen=True)
class Answer:
    """A number, or NaN with the reason why there is none."""

    value: float
    verdict: str

    def __bool__(self) -> bool:
        return not math.isnan(self.value)


def pick(metrics: pd.DataFrame, names: Sequence[str], launch: int) -> pd.DataFrame:
    """Rollups of the named metrics of one launch: metric, value, unit, state; absent ones are rows too."""
    rows = metrics[(metrics["launch"] == launch) & (metrics["instance"] == "")]
    rows = (
        rows.astype(dict.fromkeys(("metric", "unit", "state"), "string")).drop_duplicates("metric").set_index("metric")
    )
    out = rows.reindex(list(names))[["value", "unit", "state", "pass_group"]]
    filled = out.fillna({"state": "absent", "unit": "", "pass_group": -1})
    return filled.astype({"pass_group": "int32"}).reset_index(names="metric")


def largest(picked: pd.DataFrame) -> Answer:
    """Which of the picked metrics is largest; no answer where one of them is absent.

    {L2: 72, the other three absent} is "incomplete, 3 of 4 absent", not "L2".
    """
    absent = int((picked["state"] == "absent").sum())
    if absent or picked.empty:
        return Answer(math.nan, f"incomplete, {absent} of {len(picked)} absent")
    top = int(picked["value"].to_numpy().argmax())
    return Answer(float(picked["value"].to_numpy()[top]), str(picked["metric"].iloc[top]))


def relative_range(values: Sequence[float]) -> Answer:
    """(max - min) / |mean|; of [0, 0, 0] it is undefined, and so it is with an absent value."""
    if not len(values) or any(math.isnan(v) for v in values):
        return Answer(math.nan, "undefined: a value is absent" if len(values) else "undefined: no values")
    mean = math.fsum(values) / len(values)
    if mean == 0:
        return Answer(math.nan, "undefined: the mean is zero")
    return Answer((max(values) - min(values)) / abs(mean), "")


def ratio(picked: pd.DataFrame, numerator: str, denominator: str, *, same_work_in_every_pass: bool) -> Answer:
    """numerator / denominator of one launch; "inconsistent passes" where they were not counted together.

    A kernel whose work depends on data that changes (atomics, early exit) does other work in each replay pass: two
    counts of different passes, or of passes that the file does not tell, then have no ratio.
    """
    rows = picked.set_index("metric")
    if missing := [name for name in (numerator, denominator) if rows.loc[name, "state"] == "absent"]:
        return Answer(math.nan, f"{missing[0]} is absent")
    top, below = (float(str(rows.loc[name, "value"])) for name in (numerator, denominator))
    passes = [int(str(rows.loc[name, "pass_group"])) for name in (numerator, denominator)]
    if not same_work_in_every_pass and (passes[0] != passes[1] or -1 in passes):
        return Answer(math.nan, f"inconsistent passes: {passes[0]} and {passes[1]}")
    return Answer(top / below, "") if below else Answer(math.nan, f"undefined: {denominator} is zero")


def ratio_over_instances(numerators: Sequence[float], denominators: Sequence[float]) -> Answer:
    """Sum over sum: (90 of 100) and (10 of 1000) are 100 / 1100, not the mean of two ratios."""
    if len(numerators) != len(denominators):
        raise InputError(f"{len(numerators)} numerators and {len(denominators)} denominators; they must pair")
    below = math.fsum(denominators)
    if math.isnan(math.fsum(numerators)) or math.isnan(below):
        return Answer(math.nan, "undefined: a value is absent")
    return Answer(math.fsum(numerators) / below, "") if below else Answer(math.nan, "undefined: the sum below is zero")


def find_launch(launches: pd.DataFrame, kernel: str) -> pd.Series:
    """The one launch of a kernel, by its whole function name or signature.

    Raises DataError for none, and for several (say which with its ordinal).
    """
    names = [
        matches(str(row.demangled_name) or str(row.kernel_name), kernel) or str(row.kernel_name) == kernel
        for row in launches.itertuples()
    ]
    rows = launches[np.array(names, bool)]
    if len(rows) != 1:
        there = ", ".join(f"{row.launch} {row.kernel_name}" for row in launches.head(8).itertuples())
        raise DataError(f"kernel {kernel!r}: {len(rows)} launches match, 1 is needed; the file has: {there}")
    return rows.iloc[0]


_SCOPE = ("instrument", "replay", "cache_control", "clock_control")


def scope(launch: Mapping[str, object] | pd.Series) -> tuple[str, ...]:
    """What a counter's time was taken under: instrument, replay, cache and clock policy."""
    return tuple(str(launch.get(key, "ncu" if key == "instrument" else "")) for key in _SCOPE)


def difference_ns(first: Mapping[str, object] | pd.Series, second: Mapping[str, object] | pd.Series) -> float:
    """Time of first minus time of second, ns, within one scope.

    Raises DataError across scopes, naming both, and where a policy is not known: it may be another one.
    """
    scopes = scope(first), scope(second)
    if scopes[0] != scopes[1]:
        differing = [
            f"{k} {a or 'unknown'!r} and {b or 'unknown'!r}" for k, a, b in zip(_SCOPE, *scopes, strict=True) if a != b
        ]
        raise DataError(f"times of two scopes are never subtracted: {', '.join(differing)}")
    if "" in scopes[0] and str(first.get("file")) != str(second.get("file")):
        unknown = ", ".join(k for k, a in zip(_SCOPE, scopes[0], strict=True) if not a)
        raise DataError(f"times of two files whose {unknown} is not recorded may be of two scopes: not subtracted")
    return float(str(first["time_ns"])) - float(str(second["time_ns"]))
