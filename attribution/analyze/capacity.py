"""Capacity: which limit failed, how often, what a failure costs, and what the exception path costs when nothing fails.

In: tables runs, capacity, times and counters; or counts per row and segment.  Out: frames, and causes per row.
Limits: `segment` (one segment is full although the row's total fits), `row` (the total does not fit), `underflow` (fewer than
k candidates although the row has k valid keys).  A short row (fewer than K valid keys) is no underflow: k is then lower.
Misuse: a rate belongs to one distribution and one sampling seed; zero failures in n rows still leave about 3.7 in n possible.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from attribution.analyze.contrast import contrasts
from attribution.analyze.pairing import scoped
from attribution.errors import DataError
from attribution.recording import Recording

HELD = ("candidates", "scanned")
"""Counters of what the lists hold and what selection walks over: unlike where rows fail."""
CAUSES = ("fits", "segment", "row", "underflow")


def causes(
    counts: NDArray[np.integer], capacity: int, spill: int, k: int, valid: NDArray[np.integer]
) -> NDArray[np.str_]:
    """Why each row fails, or `fits`.

    counts [rows, segments]: candidates that each segment was offered; `capacity` and `spill` entries a segment holds; `valid`
    [rows] keys inside the bounds.  Underflow goes first: such a row fails whatever its segments hold.
    """
    total = counts.sum(axis=1)
    lost = (counts > capacity + spill).any(axis=1)
    wanted = np.minimum(k, valid)
    fits_row = total <= counts.shape[1] * capacity
    return np.select([total < wanted, lost & fits_row, lost], ["underflow", "segment", "row"], default="fits")


def failures(runs: pd.DataFrame, capacity: pd.DataFrame) -> pd.DataFrame:
    """One row per question, arm, shape, distribution, sampling seed and limit.

    Columns: question, arm, shape, distribution, sample_seed, seeds (input seeds), runs, limit, failures, of, rate, rate_low,
    rate_high (Clopper and Pearson, 95 %).  Runs of equal inputs and sampling seed repeat one outcome and are counted once;
    when they differ, DataError.
    """
    if capacity.empty:
        return pd.DataFrame()
    facts = runs[["run", "question", "arm", "shape", "distribution", "seed", "inputs"]].astype(
        dict.fromkeys(("question", "arm", "shape", "distribution", "inputs"), str)
    )
    facts["sample_seed"] = [json.loads(k).get("sample_seed", -1) for k in runs["knobs"].astype(str)]
    table = capacity.astype({"limit": str}).merge(facts, on="run")
    key = ["question", "arm", "shape", "distribution", "sample_seed", "limit"]
    once = table.groupby([*key, "inputs"]).agg(
        low=("failures", "min"),
        high=("failures", "max"),
        of=("of", "first"),
        seed=("seed", "first"),
        runs=("run", "nunique"),
    )
    differ = once[once["low"] != once["high"]]
    if len(differ):
        first = differ.reset_index().iloc[0]
        raise DataError(
            f"arm {first['arm']}: the same inputs and sampling seed give {first['low']} and {first['high']} {first['limit']} "
            "failures: the outcome is not deterministic, so no rate is computed"
        )
    out = once.groupby(level=list(range(len(key)))).agg(
        seeds=("seed", "nunique"), runs=("runs", "sum"), failures=("high", "sum"), of=("of", "sum")
    )
    return _with_rate(out.reset_index())


def _with_rate(table: pd.DataFrame) -> pd.DataFrame:
    """The table with rate, rate_low and rate_high of its `failures` among `of`."""
    count, total = table["failures"].to_numpy(float), table["of"].to_numpy(float)
    return table.assign(
        rate=count / np.where(total > 0, total, np.nan),
        rate_low=np.where(count > 0, stats.beta.ppf(0.025, count, total - count + 1), 0.0),
        rate_high=np.where(count < total, stats.beta.ppf(0.975, count + 1, total - count), 1.0),
    )


def by_layout(runs: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """`failures` side by side: a row per question, arm, shape, distribution and sampling seed, a column a limit.

    Columns: those, layout, entries (of a segment), spill, the limits (rows that failed by each), failures, of, rate with bounds
    (of any limit: a row fails once).  Layout facts are '' where the kernel has no such flags.
    """
    if found.empty:
        return pd.DataFrame()
    key = ["question", "arm", "shape", "distribution", "sample_seed"]
    wide = found.pivot_table(index=key, columns="limit", values="failures", aggfunc="sum", sort=False)
    out = wide.assign(failures=wide.sum(axis=1), of=found.groupby(key)["of"].max()).reset_index()
    flags = runs.astype({"arm": str}).drop_duplicates("arm").set_index("arm")["flags"].astype(str).map(json.loads)
    facts = {"layout": "LAYOUT", "entries": "SEGMENT_CAPACITY", "spill": "SPILL"}
    for place, (name, flag) in enumerate(facts.items(), start=2):
        out.insert(place, name, [flags[arm].get(flag, "") for arm in out["arm"]])
    return _with_rate(out.rename_axis(columns=None))


def exception_path(tables: Mapping[str, pd.DataFrame], stage: str = "repair", scope: str | None = None) -> pd.DataFrame:
    """What the stage for failed rows costs, per question, arm, shape and distribution.

    Columns: failing_rows (mean per run), time_ns, share (of the operator), launches (counter `launches` of the stage, else
    launches whose sizes were recorded; NaN without either), idle_ns (mean of the runs in which nothing failed, NaN without
    any), per_failure_ns with low and high.
    The cost of a failure is the slope of the stage's time over its failing rows, over all runs of the arm's question; NaN where
    they never vary.
    """
    runs, timed = tables["runs"], scoped(tables["times"], scope)
    failed = tables["capacity"].groupby("run")["failures"].sum()
    per_run = timed.groupby(["run", "stage"], observed=True)["time_ns"].median()
    key = ["question", "arm", "shape", "distribution"]
    table = runs[["run", *key]].astype(dict.fromkeys(key, str))
    for name, of in (("time_ns", stage), ("operator_ns", "operator")):
        mine = per_run[per_run.index.get_level_values("stage") == of].droplevel("stage")
        table[name] = mine.reindex(table["run"]).to_numpy()
    table["failing"] = failed.reindex(table["run"]).to_numpy(float)
    counters = tables["counters"]
    of_stage = counters[counters["stage"] == stage]
    launches = of_stage[of_stage["metric"] == "launches"].groupby("run")["value"].sum()
    sized = of_stage[of_stage["metric"] == "grid_ctas"].groupby("run").size()
    table["launches"] = (launches if len(launches) else sized).reindex(table["run"]).to_numpy(float)
    table = table[table["time_ns"].notna() & table["failing"].notna()]
    rows = []
    for (question, arm, shape, distribution), part in table.groupby(key, sort=False):
        idle = part.loc[part["failing"] == 0, "time_ns"]
        near = (table["question"] == question) & (table["shape"] == shape)
        around = table[near & table["arm"].isin([arm, question, "null"])]
        slope = _slope(around["failing"].to_numpy(float), around["time_ns"].to_numpy(float))
        rows.append(
            {
                "question": question, "arm": arm, "shape": shape, "distribution": distribution, "runs": len(part),
                "failing_rows": float(part["failing"].mean()), "time_ns": float(part["time_ns"].mean()),
                "share": float(part["time_ns"].sum() / part["operator_ns"].sum()),
                "launches": float(part["launches"].mean()), "idle_ns": float(idle.mean()) if len(idle) else math.nan,
                "per_failure_ns": slope[1], "per_failure_low_ns": slope[0], "per_failure_high_ns": slope[2],
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def against_base(recording: Recording, tables: Mapping[str, pd.DataFrame], scope: str | None = None) -> pd.DataFrame:
    """The complete operator of each arm against its base: `contrasts` over tables runs, times, checks and counters.

    Equal work is that of main but HELD: what one layout drops and repairs and another keeps is the question.
    """
    variants = recording.manifest["variants"]
    return contrasts(
        tables["runs"],
        tables["times"],
        tables["checks"],
        tables["counters"][tables["counters"]["stage"] == "main"],
        stage="operator",
        scope=scope,
        same={arm: [q for q in facts["same"] if q not in HELD] for arm, facts in variants.items()},
        tick_ns=float(recording.manifest["machine"]["tick_ns"]),
    )


def _slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float, float]:
    """Low, value, high (95 %) of the least-squares slope; NaN where x does not vary."""
    if len(np.unique(x)) < 2:
        return (math.nan, math.nan, math.nan)
    found = stats.linregress(x, y)
    half = float(stats.t.ppf(0.975, len(x) - 2) * found.stderr) if len(x) > 2 else math.nan
    return float(found.slope - half), float(found.slope), float(found.slope + half)


def cost_per_failure(with_ns: float, without_ns: float, failing_rows: float) -> float:
    """ns that one failing row costs when two schemes differ only in what they do with them.  Raises DataError for no rows."""
    if failing_rows <= 0:
        raise DataError("no row failed: a cost per failure is not defined")
    return (with_ns - without_ns) / failing_rows
