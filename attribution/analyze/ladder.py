"""The ladder: cumulative rungs of one kernel, and what each step adds.

In: tables runs, times, counters, checks, and the variants that the recording's manifest holds.  Out: frames, a row a step.
A step is T(upper rung) - T(lower rung), paired round by round; steps add up to T(base) by construction, so their sum
proves nothing: the ledger closes against a separate measurement.
Misuse: a step is exposed time in this order of rungs; it is neither the mechanism's cost nor what optimizing it can bring.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attribution.analyze import stats, work
from attribution.analyze.clock import clock_of, own_cycles
from attribution.analyze.doubts import blocking
from attribution.analyze.pairing import only, scoped
from attribution.errors import DataError, InputError

Floats = NDArray[np.float64]
Variants = Mapping[str, Mapping[str, Any]]
"""Name -> base, flags, knobs, same, factors, as a manifest has them."""


@dataclass(frozen=True)
class Rounds:
    """Times of the arms of one question, paired: `time_ns` [rounds, arms], one row for each round that all arms finished."""

    question: str
    arms: tuple[str, ...]
    rounds: NDArray[np.int64]
    time_ns: Floats
    scope: str
    stage: str
    tick_ns: float
    incomplete: int
    """Rounds that were left out because an arm had no time in them."""

    def of(self, arm: str) -> Floats:
        """Times of one arm [rounds], ns."""
        return self.time_ns[:, self.arms.index(arm)]

    def sum(self, weights: Mapping[str, float]) -> Floats:
        """Sum of weight x time of arm, per round [rounds], ns."""
        return np.asarray(self.time_ns @ np.array([weights.get(a, 0.0) for a in self.arms]))

    def mean(self, weights: Mapping[str, float]) -> tuple[float, float, float]:
        """Low, center and high (95 %) of the mean over rounds of sum(weight x time of arm), ns."""
        tick = self.tick_ns * sum(abs(w) for w in weights.values())
        found = stats.intervals(self.sum(weights), resolution=tick)
        return float(found.low[0]), float(found.center[0]), float(found.high[0])


def paired(
    runs: pd.DataFrame,
    times: pd.DataFrame,
    question: str,
    arms: Sequence[str],
    stage: str = "main",
    scope: str | None = None,
    tick_ns: float = math.nan,
) -> Rounds:
    """The rounds in which all `arms` of a question have a time of `stage`; a run's time is the median of its samples.

    Raises DataError for two scopes or points, an arm twice in a round, or no common round; InputError for an unknown arm.
    """
    here = runs[(runs["question"] == question) & runs["arm"].isin(list(arms))]
    if missing := [a for a in arms if not (here["arm"] == a).any()]:
        known = sorted(set(runs.loc[runs["question"] == question, "arm"].astype(str)))
        raise InputError(
            f"arm {missing[0]!r} was not run in question {question!r}; it has: {', '.join(known) or 'no arm'}"
        )
    for column in ("shape", "distribution"):
        only(here, column)
    ok = here[here["status"] == "ok"]
    timed = scoped(times[(times["stage"] == stage) & times["run"].isin(ok["run"])], scope)
    per_run = timed.groupby("run")["time_ns"].median()
    table = ok[["run", "round", "arm"]].astype({"arm": str})
    table["ns"] = per_run.reindex(table["run"]).to_numpy()
    # A run under a profiler has a round and no time in this scope.
    table = table[table["run"].isin(per_run.index)]
    if (twice := table.duplicated(["round", "arm"])).any():
        first = table[twice].iloc[0]
        raise DataError(
            f"arm {first['arm']} ran more than once in round {first['round']}: narrow the runs to one point"
        )
    wide = table.pivot_table(index="round", columns="arm", values="ns").reindex(columns=list(arms))
    whole = wide.dropna()
    if whole.empty:
        raise DataError(f"no round has a time of stage {stage!r} for all of {', '.join(arms)}")
    labels = sorted(set(timed["scope_label"]))
    return Rounds(
        question,
        tuple(arms),
        whole.index.to_numpy(np.int64),
        whole.to_numpy(float),
        labels[0],
        stage,
        tick_ns,
        len(wide) - len(whole),
    )


def rungs(variants: Variants, base: str, measured: Sequence[str]) -> list[str]:
    """The measured rungs below `base`, lowest first and `base` last: those that only switch mechanisms off, each one more.

    Raises InputError when fewer than one was measured, or when two cannot be put in order.
    """
    if base not in variants:
        raise InputError(f"no ladder below {base!r}: it is no variant; there are: {', '.join(variants)}")
    own = variants[base]["flags"]
    off: dict[str, frozenset[str]] = {base: frozenset()}
    for name in measured:
        facts = variants.get(name)
        if name == base or facts is None or facts["base"] != base or facts["knobs"] != variants[base]["knobs"]:
            continue
        changed = {f: v for f, v in facts["flags"].items() if f not in own or own[f] != v}
        if changed and all(v is False for v in changed.values()) and not facts.get("factors"):
            off[name] = frozenset(changed)
    for one in off:
        for other in off:
            if one < other and off[one] == off[other]:
                raise InputError(f"rungs {one} and {other} switch the same flags off: they have no order")
    best: dict[str, list[str]] = {}
    for name in sorted(off, key=lambda n: len(off[n])):
        below = [best[n] for n in best if off[n] < off[name]]
        best[name] = [name, *max(below, key=len, default=[])]
    # Other switches (no spilling, say) are shorter chains beside the ladder.
    chain = max(best.values(), key=len)
    if len(chain) < 2:
        bases = ", ".join(sorted({facts["base"] for facts in variants.values() if facts["base"]} - {base}))
        raise InputError(
            f"no ladder below {base!r}: no measured variant of it only switches mechanisms off"
            + (f"; other bases, for --base: {bases}" if bases else "")
        )
    return chain


def added(variants: Variants, base: str, chain: Sequence[str]) -> list[str]:
    """What each rung adds to the one below, as `+ REDUCE`; for the lowest its own name."""
    own = variants[base]["flags"]
    off = [{f for f, v in variants[n]["flags"].items() if n != base and own.get(f) != v} for n in chain]
    # Flags in the order in which the lowest rung declares them: the order of the pipeline.
    places = list(variants[chain[0]]["flags"])
    return [chain[0]] + ["+ " + ", ".join(sorted(off[i - 1] - off[i], key=places.index)) for i in range(1, len(chain))]


def ladder(
    tables: Mapping[str, pd.DataFrame],
    variants: Variants,
    base: str,
    stage: str = "main",
    scope: str | None = None,
    tick_ns: float = math.nan,
) -> pd.DataFrame:
    """One row a rung, lowest first.

    tables: runs, times, counters, checks.  Columns: rung, adds, time_ns, step_ns, step_low_ns, step_high_ns (95 %; of the
    lowest rung its whole time), step_share (of T(base)) with its bounds, clock_mhz (of the rung, median), cycles_share (the step in
    SM cycles, of the base's) with its bounds, rounds, verdict (measured, undecided, void), reason, scope, stage.  Clock and
    cycles are NaN where a sample has no clock of its own.  A step is void where its two rungs did unequal work that both should
    share with the base, or where an output was wrong; undecided where that was not checked, or the interval holds 0.
    """
    runs = tables["runs"]
    measured = sorted(set(runs.loc[runs["question"] == base, "arm"].astype(str)))
    chain = rungs(variants, base, measured)
    found = paired(runs, tables["times"], base, chain, stage, scope, tick_ns)
    whole = found.of(base)
    cycles = own_cycles(tables["times"], stage, found.scope)
    in_cycles = None if cycles is None else paired(runs, cycles, base, chain, stage, found.scope)
    rows = []
    for i, (rung, text) in enumerate(zip(chain, added(variants, base, chain), strict=True)):
        weights = {rung: 1.0} if i == 0 else {rung: 1.0, chain[i - 1]: -1.0}
        low, center, high = found.mean(weights)
        verdict, reason = judge(tables, variants, found, chain[i - 1] if i else rung, rung, base, (low, high))
        share = ratio_interval(found.sum(weights), whole)
        clock = math.nan if cycles is None else clock_of(runs[runs["question"] == base], cycles, rung)
        counted = ratio_interval(in_cycles.sum(weights), in_cycles.of(base)) if in_cycles else (math.nan,) * 3
        rows.append(
            {
                "rung": rung, "adds": text, "time_ns": float(np.mean(found.of(rung))),
                "step_ns": center, "step_low_ns": low, "step_high_ns": high,
                "step_share": share[1], "step_share_low": share[0], "step_share_high": share[2],
                "clock_mhz": clock, "cycles_share": counted[1], "cycles_share_low": counted[0], "cycles_share_high": counted[2],
                "rounds": len(found.rounds), "verdict": verdict, "reason": reason,
                "scope": found.scope, "stage": stage,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def judge(
    tables: Mapping[str, pd.DataFrame],
    variants: Variants,
    found: Rounds,
    lower: str,
    upper: str,
    base: str,
    bounds: tuple[float, float],
) -> tuple[str, str]:
    """Verdict and reason of the step from `lower` to `upper`: equal work, right outputs, clocks, and the interval."""
    runs = tables["runs"][(tables["runs"]["question"] == base) & tables["runs"]["arm"].isin([lower, upper])]
    shared = [q for q in variants[lower]["same"] if upper == base or q in variants[upper]["same"]]
    checks = work.equal_work(runs, tables["counters"], lower, upper, shared, found.stage) if lower != upper else ()
    void = [f"unequal work: {c}" for c in checks if c.equal is False]
    void += [text for arm in dict.fromkeys((lower, upper)) for text in work.failed_outputs(tables["checks"], runs, arm)]
    if void:
        return "void", "; ".join(void)
    doubts = [str(c) for c in checks if c.equal is None]
    timed = scoped(tables["times"][tables["times"]["stage"] == found.stage], found.scope)
    for arm in dict.fromkeys((lower, upper)):
        doubts += work.unchecked_output(tables["checks"], runs, arm)
        mine = timed[timed["run"].isin(runs.loc[runs["arm"] == arm, "run"])]
        doubts += blocking(mine["flags"], arm).values()
    if lower != upper and not shared:
        doubts.append(f"no equal work was declared for {lower}")
    if math.isnan(bounds[0]):
        doubts.append("no interval: too few rounds")
    elif bounds[0] <= 0 <= bounds[1]:
        doubts.append("the interval holds 0")
    if found.incomplete:
        doubts.append(f"{found.incomplete} rounds were left out: not all rungs finished")
    return ("undecided", "; ".join(doubts)) if doubts else ("measured", "; ".join(map(str, checks)))


def ratio_interval(part: Floats, whole: Floats) -> tuple[float, float, float]:
    """Low, value and high (95 %) of mean(part) / mean(whole), both [rounds] and paired: by linearization."""
    value = float(part.mean() / whole.mean())
    found = stats.intervals((part - value * whole) / whole.mean())
    return value + float(found.low[0]), value, value + float(found.high[0])
