"""The ledger: every microsecond has an owner, and the sum is checked against a measurement that took no part in it.

In: tables of a recording, its variants, the base.  Out: two accounts as frames, in one scope.
Operator = stages + gaps.  Main = floor + what the lowest rung takes above it + the ladder's steps.  The steps telescope to
the base's own time; the remainder is the null arm (the same build, measured at other places of the same rounds) minus that
sum: nothing makes it zero but agreement.
Misuse: the floor is arithmetic over a ceiling; a term above it is exposed time, not a cost.  Times of two scopes never meet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from attribution.analyze import stats
from attribution.analyze.doubts import blocking
from attribution.analyze.ladder import Rounds, Variants, ladder, paired, ratio_interval
from attribution.analyze.pairing import scoped
from attribution.errors import InputError
from attribution.measure.cupti import CHAIN, STAGES_OVERLAP
from attribution.plan import NULL

CLOSES = 0.02
"""The remainder's bound, as a share of main, below which the ledger is said to close."""
ONE_TIMELINE, SINCE = "cupti", 3
"""The scope whose samples are replays that hold the operator and all of its stages, and the protocol from which on it is so."""
CEILING = "practical_flop_per_s"
"""Counter of stage `ceiling` in which a recording keeps the rate of a pure matrix product on its machine."""


@dataclass(frozen=True)
class Floor:
    """Useful FLOP of stage main, and the ceilings (FLOP/s; NaN: not known)."""

    useful_flop: float
    practical_flop_per_s: float = math.nan
    spec_flop_per_s: float = math.nan

    def ns(self) -> tuple[float, float]:
        """Floor under the practical and under the data sheet's ceiling."""
        return self.useful_flop / self.practical_flop_per_s * 1e9, self.useful_flop / self.spec_flop_per_s * 1e9


def practical_ceiling(counters: pd.DataFrame) -> float:
    """Median of the recording's own ceiling, FLOP/s; NaN where none was measured."""
    mine = counters[(counters["metric"] == CEILING) & (counters["state"] == "value")]
    return float(mine["value"].median()) if len(mine) else math.nan


def of_base(tables: Mapping[str, pd.DataFrame], base: str) -> pd.DataFrame:
    """Times of the base arm's finished runs, in all scopes."""
    runs = tables["runs"]
    mine = runs[(runs["question"] == base) & (runs["arm"] == base) & (runs["status"] == "ok")]
    return tables["times"][tables["times"]["run"].isin(mine["run"])]


def stages_of(times: pd.DataFrame) -> list[str]:
    """The operator's own stages, in order of appearance."""
    return [s for s in dict.fromkeys(times["stage"].astype(str)) if s not in ("operator", "ceiling")]


def operator_account(
    tables: Mapping[str, pd.DataFrame], base: str, scope: str | None = None, tick_ns: float = math.nan
) -> pd.DataFrame:
    """Stages, `gaps` and `operator` of the base arm: item, time_ns, low_ns, high_ns, share, verdict, reason, scope.

    Gaps are operator - sum of stages: replay by replay in scope cupti, where both are of one timeline and never below 0, else
    run by run; below 0 by more than the ticks they say that they were not.  How long stages overlap there is said; in a graph
    that is a chain it is the error of its stamps, by which intervals are wider, those of gaps by one at each of its edges.
    Raises InputError when the operator, or a stage that another scope has, was not timed; DataError for two scopes.
    """
    times = of_base(tables, base)
    timed = scoped(times, scope)
    together = bool((timed["scope"] == ONE_TIMELINE).all())
    order, wide = stages_of(timed), _wide(timed, ["run", "sample"] if together else ["run"])
    label = timed["scope_label"].iloc[0] if len(timed) else scope
    if "operator" not in wide or not order or wide.empty:
        raise InputError(f"no account of the operator: {base} has times of {', '.join(map(str, wide)) or 'no stage'}")
    if untimed := [s for s in stages_of(times) if s not in order]:
        raise InputError(f"no account of the operator in {label}: {', '.join(untimed)} of {base} was not timed there")
    values = {s: wide[s].to_numpy(float) for s in order}
    whole = wide["operator"].to_numpy(float)
    values["gaps"] = whole - sum(values.values())
    values["operator"] = whole
    doubt = "; ".join(blocking(timed["flags"]).values())
    error_ns, edges, said = _stamps(tables, timed) if together else (0.0, 0, "")
    rows = []
    for item, ns in values.items():
        found = stats.intervals(ns, resolution=tick_ns * (len(order) + 1 if item == "gaps" else 1))
        share = float(ns.mean() / whole.mean())
        wider = error_ns * (edges if item == "gaps" else 1)
        low, high = float(found.low[0]) - wider, float(found.high[0]) + wider
        verdict, reason = "measured", ""
        if item == "gaps":
            verdict, reason = _gaps(ns, high, tick_ns * (len(order) + 1), together)
            reason += said
        if doubt and verdict == "measured":
            verdict, reason = "undecided", f"{doubt}; {reason}".removesuffix("; ")
        rows.append((item, float(ns.mean()), low, high, share, verdict, reason, label))
    return pd.DataFrame(rows, columns=["item", "time_ns", "low_ns", "high_ns", "share", "verdict", "reason", "scope"])


def _wide(timed: pd.DataFrame, unit: list[str]) -> pd.DataFrame:
    """Median ns of each unit [units, stages], where all stages are there."""
    each = timed.groupby([*unit, "stage"], observed=True)["time_ns"].median().reset_index()
    return each.astype({"stage": str}).pivot_table(index=unit, columns="stage", values="time_ns").dropna()


def _gaps(ns: np.ndarray, high: float, tick: float, together: bool) -> tuple[str, str]:
    allowed = 0.0 if math.isnan(tick) else tick
    if float(ns.mean()) < -allowed and not high >= -allowed:
        apart = "were not timed on one timeline, or the events between them take time"
        return "void", f"the stages take longer than the operator: they overlap, {apart}"
    if not ns.any():
        return "measured", "exactly 0 throughout: here the operator is the sum of its stages by construction"
    return (
        "measured",
        f"operator minus the stages above, {'replay by replay on one timeline' if together else 'run by run'}",
    )


def _stamps(tables: Mapping[str, pd.DataFrame], timed: pd.DataFrame) -> tuple[float, int, str]:
    """Of replays of a chain the error of stamps, ns, and its edges, else 0; and what to say of launches stamped as at once."""
    counters = tables["counters"]
    mine = counters[counters["run"].isin(timed["run"])]
    overlap, chain = (mine.loc[mine["metric"] == name, "value"] for name in (STAGES_OVERLAP, CHAIN))
    if overlap.empty:
        return 0.0, 0, ""
    most, nodes = float(overlap.max()), chain.min(skipna=False)
    if not most:
        return 0.0, 0, "; no two stages overlap"
    if nodes > 0:
        edges = int(chain.max()) - 1
        error = f"their error, by which each interval is wider, that of gaps for each of {edges} edges"
        return most, edges, f"; its graph is a chain, in which stamps overlap by up to {most:.0f} ns: {error}"
    graph = "that its graph is a chain is not known" if math.isnan(nodes) else "its graph is no chain"
    return 0.0, 0, f"; two stages overlap by up to {most:.0f} ns, which the first one owns: {graph}"


def main_account(
    tables: Mapping[str, pd.DataFrame],
    variants: Variants,
    base: str,
    floor: Floor | None = None,
    scope: str | None = None,
    tick_ns: float = math.nan,
) -> pd.DataFrame:
    """Terms, their sum and the remainder: item, kind, time_ns, low_ns, high_ns, share, verdict, reason, scope.

    kind: `floor` (arithmetic), `term` (measured), `sum`, `total` (the null arm), `remainder` (total - sum).  The floor is
    taken from `math_only` where it was measured and there is a floor, else from the lowest rung.
    """
    steps = ladder(tables, variants, base, "main", scope, tick_ns)
    names = list(steps["rung"])
    known = floor is not None and not all(map(math.isnan, floor.ns()))
    start = "math_only" if known and "math_only" in names else names[0]
    chain = names[names.index(start) :]
    arms = [*chain, *([NULL] if _has(tables, base, NULL) else [])]
    found = paired(tables["runs"], tables["times"], base, arms, "main", scope, tick_ns)
    rows = _lowest(found, start, floor if known else None)
    for _, step in steps[steps["rung"].isin(chain[1:])].iterrows():
        below = chain[chain.index(step["rung"]) - 1]
        low, center, high = found.mean({step["rung"]: 1.0, below: -1.0})
        rows.append((step["adds"], "term", center, low, high, step["verdict"], step["reason"]))
    rows.append(("sum of the terms", "sum", float(found.of(base).mean()), *_around(found, base), "", ""))
    rows += _remainder(found, base)
    out = pd.DataFrame(rows, columns=["item", "kind", "time_ns", "low_ns", "high_ns", "verdict", "reason"])
    out.insert(5, "share", out["time_ns"] / float(found.of(base).mean()))
    return out.assign(scope=found.scope, stage="main")


Row = tuple[str, str, float, float, float, str, str]


def _lowest(found: Rounds, start: str, floor: Floor | None) -> list[Row]:
    """The floor and what the lowest rung takes above it; without a floor the rung whole.

    A practical ceiling that the rung itself beats is no floor: the data sheet's is taken then.
    """
    low, center, high = found.mean({start: 1.0})
    if floor is None:
        return [(start, "term", center, low, high, "measured", "no ceiling was measured in this recording: no floor")]
    practical, spec = floor.ns()
    flop, beside = f"{floor.useful_flop:.4g} useful FLOP over", f"the data sheet's ({spec / 1e6:.3f} ms)"
    if math.isnan(practical):
        ns, text = spec, f"{flop} {beside}: no ceiling was measured in this recording"
    elif high < practical and not math.isnan(spec):
        ns, text = spec, f"{flop} {beside}: {start} beats the practical ceiling's {practical / 1e6:.3f} ms"
    else:
        ns, text = practical, f"{flop} the practical ceiling" + ("" if math.isnan(spec) else f"; over {beside}")
    verdict = "measured" if high >= ns else "void"
    above = f"{start} above the floor" + ("" if verdict == "measured" else ": it is faster than the ceiling")
    return [
        ("floor", "floor", ns, math.nan, math.nan, "arithmetic", text),
        (f"{start} above floor", "term", center - ns, low - ns, high - ns, verdict, above),
    ]


def _remainder(found: Rounds, base: str) -> list[Row]:
    """The independent total and what it leaves."""
    if NULL not in found.arms:
        return [
            (
                "remainder",
                "remainder",
                math.nan,
                math.nan,
                math.nan,
                "not measured",
                "no null arm: nothing independent to close against",
            )
        ]
    low, center, high = found.mean({NULL: 1.0, base: -1.0})
    bound = max(abs(low), abs(high)) / float(found.of(base).mean())
    if math.isnan(bound):
        verdict, reason = "undecided", "no interval: too few rounds"
    elif bound <= CLOSES:
        verdict, reason = "closes", f"at most {bound:.2%} of the whole, allowed {CLOSES:.0%}"
    elif low <= 0 <= high:
        verdict, reason = (
            "undecided",
            f"may be up to {bound:.2%} of the whole: too noisy to say that it closes within {CLOSES:.0%}",
        )
    else:
        verdict, reason = "does not close", f"{center / float(found.of(base).mean()):+.2%} of the whole has no owner"
    total = (
        f"{NULL} (measured apart)",
        "total",
        float(found.of(NULL).mean()),
        *_around(found, NULL),
        "",
        "",
    )
    return [total, ("remainder", "remainder", center, low, high, verdict, reason)]


def _around(found: Rounds, arm: str) -> tuple[float, float]:
    low, _, high = found.mean({arm: 1.0})
    return low, high


def _has(tables: Mapping[str, pd.DataFrame], base: str, arm: str) -> bool:
    runs = tables["runs"]
    return bool(((runs["question"] == base) & (runs["arm"] == arm)).any())


def control_share(
    tables: Mapping[str, pd.DataFrame],
    base: str,
    lower: str,
    stage: str = "main",
    scope: str | None = None,
    build: str = "",
) -> tuple[float, float, float]:
    """1 - T(lower) / T(base), paired: low, value, high (95 %, NaN of one round); with `build` of the arms so called (`+trace`).

    Raises DataError, InputError.
    """
    arms = [lower + build, base + build]
    found = paired(tables["runs"], tables["times"], base, arms, stage, scope)
    return ratio_interval(found.of(arms[1]) - found.of(arms[0]), found.of(arms[1]))
