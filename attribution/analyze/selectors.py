"""Selectors side by side: who is faster where, at which width that changes, and what depends on the inputs' distribution.

In: a sweep's tables runs, times and checks.  Out: `cells`, one row a pair of selectors and point; crossovers; sensitivity.
A ratio is second / first inside the rounds of one point: below 1 the second is faster.  Intervals are 95 %, verdicts 98 %.
Misuse: points were measured at different times: a ratio between two of them (`sensitivity`) is unpaired and carries no verdict.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from attribution.analyze.doubts import blocking
from attribution.analyze.estimate import estimate
from attribution.analyze.modes import Modes, combinations, modes_of, told, two_modes
from attribution.analyze.pairing import scoped
from attribution.analyze.verdict import settle
from attribution.errors import DataError
from attribution.plan import NULL

POINT = ["distribution", "rows", "columns", "k"]
"""What tells points apart; all of a cell's rows have them."""
STAGE = "operator"


def points(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with their shape as numbers: columns rows, columns, k.  Raises DataError for a shape of another kernel."""
    shapes = {}
    for text in runs["shape"].astype(str).unique():
        pairs = dict(part.partition("=")[::2] for part in text.split(","))
        try:
            shapes[text] = [int(pairs[name]) for name in POINT[1:]]
        except (KeyError, ValueError):
            raise DataError(
                f"shape {text!r} is no point of a sweep of selectors, which has rows, columns and k: "
                "`attr show` prints other recordings"
            ) from None
    sizes = pd.DataFrame([shapes[text] for text in runs["shape"].astype(str)], columns=POINT[1:], index=runs.index)
    return runs.astype({"distribution": str, "arm": str}).join(sizes)


def cells(
    runs: pd.DataFrame, times: pd.DataFrame, checks: pd.DataFrame, scope: str, tick_ns: float = math.nan
) -> pd.DataFrame:
    """A row for each point and pair of selectors, in the order of the plan.

    Columns: POINT, first, second, pairs, first_ns, second_ns (medians), ratio, ratio_low, ratio_high, verdict, reason.
    verdict: `faster` when the second is; `void` where one has no run with a right output.  The null arm gives the floor.
    """
    placed, timed = points(runs), scoped(times[times["stage"] == STAGE], scope)
    if timed.empty:
        there = times.loc[times["stage"] == STAGE, "scope"].astype(str).unique()
        raise DataError(f"no time of a whole selection in scope {scope}; there are: {', '.join(there) or 'none'}")
    per_run = timed.groupby("run")["time_ns"].median()
    wrong = checks[~checks["passed"]].drop_duplicates("run").set_index("run")["check"].astype(str)
    rows = []
    for key, here in placed.groupby(POINT, sort=False):
        base = str(here["question"].iloc[0])
        reasons = {arm: _unusable(mine, wrong) for arm, mine in here.groupby("arm", sort=False)}
        good = here[(here["status"] == "ok") & here["run"].isin(per_run.index)]
        samples = {str(arm): timed[timed["run"].isin(mine["run"])] for arm, mine in good.groupby("arm")}
        doubts = {arm: blocking(mine["flags"]) for arm, mine in samples.items()}
        modes = {arm: modes_of(mine["time_ns"], tick_ns) for arm, mine in samples.items()}
        ns = good.assign(ns=per_run.reindex(good["run"]).to_numpy()).pivot_table("ns", "round", "arm", "last")
        null = _pairs(ns, base, NULL) if {base, NULL} <= {*ns} else None
        order = [arm for arm in here.sort_values("run")["arm"].unique() if arm not in (NULL, base)]
        for first, second in itertools.combinations([base, *sorted(order)], 2):
            why = reasons.get(first, "") or reasons.get(second, "")
            doubt = ", ".join(sorted({*doubts.get(first, ()), *doubts.get(second, ())}))
            both = {name: modes[name] for name in (first, second) if name in modes}
            found = _cell(_pairs(ns, first, second), null, both, tick_ns, why, doubt)
            rows.append(dict(zip(POINT, key, strict=True)) | {"first": first, "second": second} | found)
    return pd.DataFrame(rows)


def _unusable(mine: pd.DataFrame, wrong: pd.Series) -> str:
    """Why an arm's times are no times of a selection, '' when they are."""
    bad = mine[mine["run"].isin(wrong.index)]
    if len(bad):
        return f"{mine['arm'].iloc[0]}: wrong output: {wrong[bad['run'].iloc[0]]}"
    if not (mine["status"] == "ok").any():
        return f"{mine['arm'].iloc[0]}: {mine['reason'].iloc[0]}"
    return ""


def _pairs(ns: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """Rounds that both have, as `estimate` takes them."""
    if not {first, second} <= {*ns}:
        return pd.DataFrame({"base_ns": [], "arm_ns": []})
    return ns[[first, second]].dropna().rename(columns={first: "base_ns", second: "arm_ns"})


def _cell(
    pairs: pd.DataFrame, null: pd.DataFrame | None, modes: dict[str, Modes], tick_ns: float, why: str, doubt: str
) -> dict[str, Any]:
    """One pair at one point; `modes` has those of the first and the second, in this order."""
    if why or pairs.empty:
        nothing = dict.fromkeys(["first_ns", "second_ns", "ratio", "ratio_low", "ratio_high"], math.nan)
        return {"pairs": 0, **nothing, "verdict": "void", "reason": why or "no round has both"}
    found = estimate(pairs, null, tick_ns)
    base, arm = modes.values()
    by_modes = [one.log for one in combinations(base, arm, tick_ns)]
    verdict, reason = settle(found["log"], by_modes, told(modes), found["null_floor"])
    if doubt:
        verdict, reason = "undecided", f"{doubt} samples; {reason}"
    return {
        "pairs": found["pairs"], "first_ns": found["base_ns"], "second_ns": found["arm_ns"], "ratio": found["time_ratio"],
        "ratio_low": found["time_ratio_low"], "ratio_high": found["time_ratio_high"], "verdict": verdict, "reason": reason,
    }  # fmt: skip


def crossovers(found: pd.DataFrame) -> pd.DataFrame:
    """For each pair, distribution, k and number of rows: at which width the faster one changes.

    Columns: distribution, rows ('varied' where every width has its own), k, first, second, narrow and wide (who is faster
    below and above), low_columns and high_columns (the last and the first width that are decided: the crossover's interval),
    columns (interpolated in log-log, NaN without a change), changes, words.
    """
    group = ["distribution", "k", "first", "second"]
    if found.duplicated([*group, "columns"]).any():
        group = [*group, "rows"]
    out = []
    for key, mine in found.groupby(group, sort=False):
        place = dict(zip(group, key, strict=True))
        rows = mine["rows"].unique()
        place["rows"] = int(rows[0]) if len(rows) == 1 else "varied"
        out.append(place | _crossover(mine.sort_values("columns"), str(place["first"]), str(place["second"])))
    return pd.DataFrame(out)


def _crossover(mine: pd.DataFrame, first: str, second: str) -> dict[str, Any]:
    """One pair over its widths."""
    winners = {"faster": second, "slower": first}
    decided = mine[mine["verdict"].isin(list(winners))]
    steps = [
        (a, b)
        for a, b in itertools.pairwise(decided.to_dict("records"))
        if winners[a["verdict"]] != winners[b["verdict"]]
    ]
    out = {"narrow": "", "wide": "", "low_columns": math.nan, "columns": math.nan, "high_columns": math.nan}
    if decided.empty:
        return out | {"changes": 0, "words": "undecided at every width"}
    out["narrow"], out["wide"] = (winners[decided["verdict"].iloc[end]] for end in (0, -1))
    if not steps:
        words = f"{out['narrow']} at every width that is decided ({len(decided)} of {len(mine)})"
        return out | {"changes": 0, "words": words}
    brackets = [(int(a["columns"]), int(b["columns"])) for a, b in steps]
    if len(steps) > 1:
        words = "changes between " + ", ".join(f"{a} and {b}" for a, b in brackets) + ": no single width divides them"
        return out | {"changes": len(steps), "words": words}
    low, high = brackets[0]
    inside = mine[mine["columns"].between(low, high)]
    at = _zero(np.log(inside["columns"].to_numpy(float)), np.log(inside["ratio"].to_numpy(float)))
    out |= {"low_columns": low, "columns": math.exp(at), "high_columns": high}
    words = f"{out['narrow']} up to {low}, {out['wide']} from {high}; equal at about {math.exp(at):.0f}"
    return out | {"changes": 1, "words": words}


def _zero(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> float:
    """Where the polyline through (x, y) first changes sign."""
    known = ~np.isnan(y)
    x, y = x[known], y[known]
    at = int(np.flatnonzero(np.sign(y[:-1]) != np.sign(y[1:]))[0])
    return float(x[at] - y[at] * (x[at + 1] - x[at]) / (y[at + 1] - y[at]))


def relative(found: pd.DataFrame) -> pd.DataFrame:
    """A row for each point and selector: time_ns, ratio to the point's base, and to the fastest there (`over_best`).

    A selector that is void at a point has no row there.
    """
    rows = []
    for key, mine in found.groupby(POINT, sort=False):
        base = mine["first"].iloc[0]
        against = mine[(mine["first"] == base) & (mine["verdict"] != "void")]
        if against.empty:
            continue
        there = [(base, against["first_ns"].iloc[0], 1.0, 1.0, 1.0)]
        there += against[["second", "second_ns", "ratio", "ratio_low", "ratio_high"]].itertuples(index=False, name=None)
        best = min(ratio for _, _, ratio, _, _ in there)
        for name, ns, ratio, low, high in there:
            place = dict(zip(POINT, key, strict=True))
            rows.append(
                place | {"selector": name, "time_ns": ns, "ratio": ratio, "ratio_low": low, "ratio_high": high,
                         "over_best": ratio / best}
            )  # fmt: skip
    return pd.DataFrame(rows)


def unbeaten(here: pd.DataFrame) -> list[str]:
    """Selectors that no other one is decided to be faster than, of the cells of one point."""
    usable = here[here["verdict"] != "void"]
    beaten = {*usable.loc[usable["verdict"] == "faster", "first"], *usable.loc[usable["verdict"] == "slower", "second"]}
    return [name for name in dict.fromkeys([*usable["first"], *usable["second"]]) if name not in beaten]


def sensitivity(found: pd.DataFrame, random: str) -> pd.DataFrame:
    """How much longer a selector takes on another distribution than on `random`, at equal rows, columns and k: unpaired.

    Columns: selector, distribution, least and most (time ratio over the shapes that both have), shapes.
    """
    times = relative(found)
    rows = []
    for (selector, distribution), mine in times.groupby(["selector", "distribution"], sort=False):
        if distribution == random:
            continue
        plain = times[(times["selector"] == selector) & (times["distribution"] == random)]
        both = mine.merge(plain, on=POINT[1:], suffixes=("", "_random"))
        if len(both):
            ratio = both["time_ns"] / both["time_ns_random"]
            rows.append((selector, distribution, ratio.min(), ratio.max(), len(both)))
    return pd.DataFrame(rows, columns=["selector", "distribution", "least", "most", "shapes"])


def in_two_modes(runs: pd.DataFrame, times: pd.DataFrame, scope: str, tick_ns: float = math.nan) -> pd.DataFrame:
    """Selectors, the null arm too, whose samples at a point lie in two modes.

    Columns: POINT, selector, lower_ns, lower (samples), upper_ns, upper.
    """
    placed = points(runs)[["run", *POINT, "arm"]].rename(columns={"arm": "selector"})
    timed = scoped(times[times["stage"] == STAGE], scope).merge(placed, on="run")
    rows = []
    for key, mine in timed.groupby([*POINT, "selector"], sort=False):
        if found := two_modes(mine["time_ns"], tick_ns):
            values = zip(found.values, found.counts, strict=True)
            rows.append([*key, *itertools.chain.from_iterable(values)])
    return pd.DataFrame(rows, columns=[*POINT, "selector", "lower_ns", "lower", "upper_ns", "upper"])


def selected_again(runs: pd.DataFrame, capacity: pd.DataFrame) -> pd.DataFrame:
    """Rows that a selector had to select once more because a limit of its own failed, where there were any.

    Columns: POINT, selector, limit, failures (the most of one run), of.
    """
    columns = [*POINT, "selector", "limit"]
    found = capacity[capacity["failures"] > 0].astype({"limit": str})
    there = points(runs[runs["arm"].astype(str) != NULL]).rename(columns={"arm": "selector"})
    rows = found.merge(there[["run", *POINT, "selector"]], on="run")
    return rows.groupby(columns, sort=False)[["failures", "of"]].max().reset_index()


def pairs(found: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """The pairs of selectors, each once."""
    for first, second in found[["first", "second"]].drop_duplicates().itertuples(index=False, name=None):
        yield str(first), str(second)


def oriented(found: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """The cells of one pair, as second / first whichever way round they are.  Raises DataError when there are none."""
    mine = found[(found["first"] == first) & (found["second"] == second)]
    if len(mine):
        return mine
    mine = found[(found["first"] == second) & (found["second"] == first)]
    if mine.empty:
        names: Sequence[str] = sorted({*found["first"], *found["second"]})
        raise DataError(f"{first} and {second} were not measured side by side; there are: {', '.join(names)}")
    turned = {"faster": "slower", "slower": "faster"}
    return mine.assign(
        first=first, second=second, first_ns=mine["second_ns"], second_ns=mine["first_ns"], ratio=1 / mine["ratio"],
        ratio_low=1 / mine["ratio_high"], ratio_high=1 / mine["ratio_low"], verdict=mine["verdict"].replace(turned),
    )  # fmt: skip
