"""Whether two arms may be compared at all: equal work, right labels, right output, equal inputs.

In: `runs` of one point (one question, shape and distribution) and the `counters` and `checks` of
the recording. Out: `WorkCheck` values and reasons, each a sentence; no reasons is a pass.
Misuse: a quantity that was not counted is "not checked", never "equal": a control that lost its
matrix work is fast for the wrong reason, and only its counters say so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
        sign = "!=" if not self.equal else "=" if self.base == self.arm else "~"
        return f"{self.quantity}: {self.base} {sign} {self.arm}"


MATRIX_FLOP, PIPE_CYCLES = "mma_flop", "tensor_cycles_active"
BY_CYCLES = f"{MATRIX_FLOP} by cycles of the tensor pipes"
"""What a GPU does not count, and what it counts instead: each cycle of a tensor pipe is as many FLOP of FP8 instructions."""
WHOLE_TILES = 0.02
"""By how much these may differ: a batch reads whole key tiles, and a tile of fewer rows has more keys (0.016 seen at N 8,192)."""

GRID = "ctas"
"""How a stage is launched adds up to nothing over stages: asked of the whole operator it is that of main."""


def equal_work(
    runs: pd.DataFrame,
    counters: pd.DataFrame,
    base: str,
    arm: str,
    same: Sequence[str],
    stage: str = "operator",
) -> tuple[WorkCheck, ...]:
    """One WorkCheck for each quantity of `same`, on the runs that had the same inputs: exact, but for `mma_flop` of a GPU.

    Counters of `stage` are used where it has any, else those of every stage. Launches of one run are added up; instances, stages
    and scopes are compared one by one. What was not counted and is a knob of the launch is read off the runs.
    """
    both = [
        row
        for row in zip(*(runs[c].tolist() for c in ("arm", "run", "inputs", "knobs")), strict=True)
        if row[0] in (base, arm)
    ]
    of = {run: (name, inputs) for name, run, inputs, _ in both}
    wanted = [*same, PIPE_CYCLES] if MATRIX_FLOP in same else list(same)
    counted = counters[counters["metric"].isin(wanted) & counters["run"].isin(list(of))]
    rows: dict[str, list[_Counted]] = {quantity: [] for quantity in wanted}
    for metric, run, *rest in zip(*(counted[c].tolist() for c in COLUMNS), strict=True):
        rows[metric].append(_Counted(*of[run], run, *rest))
    of_stage = {GRID: "main"} if stage == "operator" else {}
    checks = {quantity: _check(quantity, rows[quantity], base, arm, of_stage.get(quantity, stage)) for quantity in same}
    if MATRIX_FLOP in same and not rows[MATRIX_FLOP]:
        checks[MATRIX_FLOP] = _check(BY_CYCLES, rows[PIPE_CYCLES], base, arm, stage, WHOLE_TILES)
    knobs = {name: {text for one, *_, text in both if one == name} for name in (base, arm)}
    return tuple(_as_launched(c, knobs, base, arm) if c.equal is None else c for c in checks.values())


def _as_launched(check: WorkCheck, knobs: Mapping[str, Collection[str]], base: str, arm: str) -> WorkCheck:
    """A quantity that nobody counted, when it is a knob of the launch: then the runs themselves say what it was."""
    values = {name: {json.loads(text).get(check.quantity) for text in knobs[name]} for name in (base, arm)}
    if any(len(found) != 1 or None in found for found in values.values()):
        return check
    (one,), (other,) = values[base], values[arm]
    return WorkCheck(check.quantity, f"{one:.12g}", f"{other:.12g}", one == other)


COLUMNS = ("metric", "run", "stage", "scope", "instance", "state", "value")


class _Counted(NamedTuple):
    """One value of a counter."""

    arm: str
    inputs: str
    run: int
    stage: str
    scope: str
    instance: str
    state: str
    value: float


def _check(
    quantity: str, counted: Sequence[_Counted], base: str, arm: str, stage: str, within: float = 0.0
) -> WorkCheck:
    """The WorkCheck of one quantity from its counter rows; values that differ by at most `within` of the least are equal."""
    counted = [c for c in counted if c.stage == stage] or counted
    seen = {name: _seen([c for c in counted if c.arm == name]) for name in (base, arm)}
    if "absent" in seen.values():
        return WorkCheck(quantity, seen[base], seen[arm], None)
    shared = {c.inputs for c in counted if c.arm == base} & {c.inputs for c in counted if c.arm == arm}
    if not shared:
        return WorkCheck(quantity, "no inputs in common", "no inputs in common", None)
    per_run: dict[tuple[str, ...], dict[tuple[str, int], float]] = {}
    for c in counted:
        if c.inputs in shared:
            runs = per_run.setdefault((c.inputs, c.stage, c.scope, c.instance), {})
            runs[c.arm, c.run] = runs.get((c.arm, c.run), 0.0) + c.value
    values = [(set(runs.values()), len({of for of, _ in runs})) for runs in per_run.values()]
    # Two that did no work are equal in nothing.
    if max(map(max, (found for found, _ in values))) <= 0 and all(arms == 2 for _, arms in values):
        return WorkCheck(quantity, "nothing counted", "nothing counted", None)
    # A stage or instance that only one arm has is a difference, not a gap, unless it did nothing there.
    equal = all(max(found) <= min(found) * (1 + within) and (arms == 2 or max(found) == 0) for found, arms in values)
    return WorkCheck(quantity, seen[base], seen[arm], equal)


def _seen(counted: Sequence[_Counted]) -> str:
    """The values of one arm in words: one number, a range, or `absent`."""
    if not counted or any(c.state == "absent" or math.isnan(c.value) for c in counted):
        return "absent"
    per_run: dict[int, float] = {}
    for c in counted:
        per_run[c.run] = per_run.get(c.run, 0.0) + c.value
    low, high = min(per_run.values()), max(per_run.values())
    return f"{low:.12g}" if low == high else f"{low:.12g} to {high:.12g}"


def failed_outputs(checks: pd.DataFrame, runs: pd.DataFrame, arm: str) -> list[str]:
    """Reasons against the output of `arm`: every check of its runs that did not hold."""
    mine = checks["run"].isin(runs.loc[runs["arm"] == arm, "run"]).to_numpy()
    bad = mine & ~checks["passed"].to_numpy(bool)
    if not bad.any():
        return []
    first = checks[bad].iloc[0]
    return [
        f"wrong output: {arm} failed {bad.sum()} of {mine.sum()} checks, first {first['check']} "
        f"({first['when']} timing, run {first['run']}): {first['detail']}"
    ]


def unchecked_output(checks: pd.DataFrame, runs: pd.DataFrame, arm: str) -> list[str]:
    """The reason why the output of `arm` does not count as right: no check after its timing."""
    mine = checks["run"].isin(runs.loc[runs["arm"] == arm, "run"]).to_numpy()
    if (mine & (checks["when"] == "after").to_numpy()).any():
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
    columns = ("arm", "variant", "flags", "knobs", "build")
    ran: dict[str, list[dict[str, str]]] = {}
    for row in zip(*(runs[column].tolist() for column in columns), strict=True):
        ran.setdefault(row[0], []).append(dict(zip(columns, row, strict=True)))
    reasons = []
    for name in dict.fromkeys([base, arm, *([null_arm] if null_arm else [])]):
        mine, variant = ran.get(name, []), base if name == null_arm else name
        if other := sorted({row["variant"] for row in mine} - {variant}):
            reasons.append(f"label: runs of arm {name} are of variant {', '.join(other)}")
        for column in columns[2:]:
            if len(values := sorted({row[column] for row in mine})) > 1:
                reasons.append(f"label: arm {name} has {len(values)} {column}: {values[:2]}")
        if declared is not None and variant in declared and mine:
            reasons += _unlike_flags(name, mine[0]["flags"], declared[variant])
    return reasons + _builds({name: rows[0] for name, rows in ran.items()}, base, arm, null_arm)


def _builds(first: Mapping[str, Mapping[str, str]], base: str, arm: str, null_arm: str | None) -> list[str]:
    """Reasons from builds and flags that are equal and should differ, or the other way round; `first` run of each arm."""
    reasons = []
    if null_arm is not None and {base, null_arm} <= set(first):
        other = [c for c in ("flags", "knobs", "build") if first[base][c] != first[null_arm][c]]
        reasons += [f"label: null arm {null_arm} has other {column} than {base}" for column in other[:1]]
    if arm != null_arm and {base, arm} <= set(first):
        one, two = first[base], first[arm]
        if one["flags"] != two["flags"] and one["build"] == two["build"] != "":
            reasons.append(f"label: {base} and {arm} have unlike flags and one build {one['build']}")
    return reasons


def _unlike_flags(name: str, flags: str, declared: Mapping[str, Any]) -> list[str]:
    """Reasons from flags that were run and are not those that were declared."""
    ran = json.loads(flags)
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
