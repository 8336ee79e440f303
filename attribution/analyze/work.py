"""Whether two arms may be compared at all: equal work, right labels, right output, equal inputs.

In: `runs` of one point (one question, shape and distribution) and the `counters` and `checks` of
the recording. Out: `WorkCheck` values and reasons, each a sentence; no reasons is a pass.
Misuse: a quantity that was not counted is "not checked", never "equal": a control that lost its
matrix work is fast for the wrong reason, and only its counters say so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class WorkCheck:
    """One quantity that must not differ: what base and arm counted, and whether that is equal.

    `equal` is None when it was not checked; the texts then say why.
    """

    quantity: str
    base: str
    arm: str
    equal: bool | None

    def __str__(self) -> str:
        if self.equal is None:
            return f"{self.quantity}: not checked ({self.base} against {self.arm})"
        return f"{self.quantity}: {self.base} {'=' if self.equal else '!='} {self.arm}"


def equal_work(
    runs: pd.DataFrame,
    counters: pd.DataFrame,
    base: str,
    arm: str,
    same: Sequence[str],
    stage: str = "operator",
) -> tuple[WorkCheck, ...]:
    """One WorkCheck for each quantity of `same`, exact, on the runs that had the same inputs.

    Counters of `stage` are used where it has any, else those of every stage. Launches of one run
    are added up; instances, stages and scopes are compared one by one.
    """
    chosen = runs.loc[runs["arm"].isin([base, arm]), ["run", "arm", "inputs"]].astype({"arm": str, "inputs": str})
    counted = counters[counters["metric"].isin(list(same))].merge(chosen, on="run")
    return tuple(_check(quantity, counted[counted["metric"] == quantity], base, arm, stage) for quantity in same)


def _check(quantity: str, counted: pd.DataFrame, base: str, arm: str, stage: str) -> WorkCheck:
    """The WorkCheck of one quantity from its counter rows."""
    if (counted["stage"] == stage).any():
        counted = counted[counted["stage"] == stage]
    seen = {name: _seen(counted[counted["arm"] == name]) for name in (base, arm)}
    if "absent" in seen.values():
        return WorkCheck(quantity, seen[base], seen[arm], None)
    key = ["inputs", "stage", "scope", "instance"]
    by_arm = counted["inputs"].astype(str).groupby(counted["arm"].to_numpy()).unique()
    shared = counted[counted["inputs"].isin(set(by_arm[base]) & set(by_arm[arm]))]
    if shared.empty:
        return WorkCheck(quantity, "no inputs in common", "no inputs in common", None)
    texts = shared.astype(dict.fromkeys(key, str))
    per_run = texts.groupby([*key, "arm", "run"], as_index=False)["value"].sum()
    found = per_run.groupby(key).agg(low=("value", "min"), high=("value", "max"), arms=("arm", "nunique"))
    # Two that did no work are equal in nothing.
    if found["high"].max() <= 0 and (found["arms"] == 2).all():
        return WorkCheck(quantity, "nothing counted", "nothing counted", None)
    # An instance that only one arm has is a difference, not a gap.
    equal = bool(((found["low"] == found["high"]) & (found["arms"] == 2)).all())
    return WorkCheck(quantity, seen[base], seen[arm], equal)


def _seen(counted: pd.DataFrame) -> str:
    """The values of one arm in words: one number, a range, or `absent`."""
    if counted.empty or (counted["state"] == "absent").any() or counted["value"].isna().any():
        return "absent"
    per_run = counted.groupby("run")["value"].sum()
    low, high = per_run.min(), per_run.max()
    return f"{low:.12g}" if low == high else f"{low:.12g} to {high:.12g}"


def failed_outputs(checks: pd.DataFrame, runs: pd.DataFrame, arm: str) -> list[str]:
    """Reasons against the output of `arm`: every check of its runs that did not hold."""
    mine = checks[checks["run"].isin(runs.loc[runs["arm"] == arm, "run"])]
    bad = mine[~mine["passed"].astype(bool)]
    if bad.empty:
        return []
    first = bad.iloc[0]
    return [
        f"wrong output: {arm} failed {len(bad)} of {len(mine)} checks, first {first['check']} "
        f"({first['when']} timing, run {first['run']}): {first['detail']}"
    ]


def unchecked_output(checks: pd.DataFrame, runs: pd.DataFrame, arm: str) -> list[str]:
    """The reason why the output of `arm` does not count as right: no check after its timing."""
    mine = checks["run"].isin(runs.loc[runs["arm"] == arm, "run"])
    if (mine & (checks["when"] == "after")).any():
        return []
    return [f"output of {arm} was not checked after its timing"]


def wrong_labels(
    runs: pd.DataFrame,
    base: str,
    arm: str,
    null_arm: str | None,
    declared: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[str]:
    """Reasons to think that an arm is not what its name says.

    Its variant must be its name (for the null arm the base's), its flags must be those that
    `declared` (variant -> all flags, resolved) gives it; an arm has one build and one set of flags,
    the null arm the base's, and two sets of flags cannot come from one build.
    """
    reasons = []
    for name in dict.fromkeys([base, arm, *([null_arm] if null_arm else [])]):
        mine = runs[runs["arm"] == name]
        variant = base if name == null_arm else name
        if other := sorted(set(mine["variant"].astype(str)) - {variant}):
            reasons.append(f"label: runs of arm {name} are of variant {', '.join(other)}")
        for column in ("flags", "knobs", "build"):
            if len(values := sorted(set(mine[column].astype(str)))) > 1:
                reasons.append(f"label: arm {name} has {len(values)} {column}: {values[:2]}")
        if declared is not None and variant in declared and len(mine):
            reasons += _unlike_flags(name, mine, declared[variant])
    return reasons + _builds(runs, base, arm, null_arm)


def _builds(runs: pd.DataFrame, base: str, arm: str, null_arm: str | None) -> list[str]:
    """Reasons from builds and flags that are equal and should differ, or the other way round."""
    first = runs.drop_duplicates("arm").astype({"arm": str}).set_index("arm")
    first = first[["flags", "knobs", "build"]].astype(str)
    reasons = []
    if {base, null_arm} <= set(first.index) and (first.loc[base] != first.loc[null_arm]).any():
        column = str((first.loc[base] != first.loc[null_arm]).idxmax())
        reasons.append(f"label: null arm {null_arm} has other {column} than {base}")
    if arm != null_arm and {base, arm} <= set(first.index):
        one, two = first.loc[base], first.loc[arm]
        if one["flags"] != two["flags"] and one["build"] == two["build"] != "":
            reasons.append(f"label: {base} and {arm} have unlike flags and one build {one['build']}")
    return reasons


def _unlike_flags(name: str, mine: pd.DataFrame, declared: Mapping[str, Any]) -> list[str]:
    """Reasons from flags that were run and are not those that were declared."""
    ran = json.loads(str(mine["flags"].iloc[0]))
    differ = [f for f in {**declared, **ran} if ran.get(f) != declared.get(f)]
    if not differ:
        return []
    flag = differ[0]
    return [
        f"label: arm {name} ran with {flag} = {ran.get(flag)} and is declared with "
        f"{declared.get(flag)} ({len(differ)} flags differ)"
    ]


def unequal_inputs(pairs: pd.DataFrame) -> list[str]:
    """Reason from pairs (columns round, inputs_base, inputs_arm) whose inputs differ."""
    differ = pairs["inputs_base"].astype(str).to_numpy() != pairs["inputs_arm"].astype(str).to_numpy()
    if not differ.any():
        return []
    first = pairs.iloc[int(np.argmax(differ))]
    return [
        f"unequal inputs in {int(differ.sum())} of {len(pairs)} rounds, first round "
        f"{first['round']}: {first['inputs_base']} and {first['inputs_arm']}"
    ]
