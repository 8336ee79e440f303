"""Contrasts: two arms of one question, paired round by round, with every reason for doubt.

In: the tables runs, times, checks and counters of a recording.
Out: `Contrast` values, or a row for each (`contrasts`). Ratios are arm / base: below 1 is faster.
Misuse: values of two scopes (instrument, cache and clock policy) are never combined: that raises.
Exposed time (base - arm) is what is seen when the arm's mechanism is taken away; it is neither the
mechanism's cost nor a bound on what optimizing it could bring.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from attribution.analyze import clock, work
from attribution.analyze.doubts import doubts, void_reasons
from attribution.analyze.estimate import estimate, spanned
from attribution.analyze.modes import combinations, told
from attribution.analyze.pairing import only, pair_rounds, point, scoped, scopes
from attribution.analyze.verdict import AT_BEST, MARGIN, judge, settle, stated_for
from attribution.errors import InputError


@dataclass(frozen=True)
class Contrast:
    """Arm against base at one point: estimates with 95 % intervals, checks, verdict with reasons.

    Times are ns, ratios are arm / base. `exposed_*` is base - arm. `detectable` and `null_floor`
    are relative effects (0.01 is 1 %). NaN is "not known". `effective_pairs` is below `pairs` where
    rounds are autocorrelated; `blocked` says that something allowed no more than `undecided`. `modes_*`
    spans the interval of the rounds and those of all combinations of modes, where an arm lies in two. `*_mhz` are SM clocks, and
    `cycles_ratio*` is the ratio in SM cycles, where each sample has a clock of its own: what is left of the time is the clock's.
    """

    question: str
    base: str
    arm: str
    shape: str
    distribution: str
    scope: str
    stage: str
    verdict: str
    reasons: tuple[str, ...]
    pairs: int = 0
    effective_pairs: float = math.nan
    base_ns: float = math.nan
    arm_ns: float = math.nan
    time_ratio: float = math.nan
    time_ratio_low: float = math.nan
    time_ratio_high: float = math.nan
    exposed_ns: float = math.nan
    exposed_low_ns: float = math.nan
    exposed_high_ns: float = math.nan
    modes_time_ratio_low: float = math.nan
    modes_time_ratio_high: float = math.nan
    modes_exposed_low_ns: float = math.nan
    modes_exposed_high_ns: float = math.nan
    detectable: float = math.nan
    null_floor: float = math.nan
    margin: float = MARGIN
    method: str = ""
    work: tuple[work.WorkCheck, ...] = ()
    flags: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    blocked: bool = False
    base_mhz: float = math.nan
    arm_mhz: float = math.nan
    cycles_ratio: float = math.nan
    cycles_ratio_low: float = math.nan
    cycles_ratio_high: float = math.nan

    def __str__(self) -> str:
        return (
            f"{self.arm} / {self.base} ({self.stage}, {self.scope}): {self.time_ratio:.4f} "
            f"[{self.time_ratio_low:.4f}, {self.time_ratio_high:.4f}], {self.pairs} pairs: "
            f"{self.verdict}; {'; '.join(self.reasons)}"
        )

    def row(self) -> dict[str, Any]:
        """All fields as scalars: texts are joined by `; `, flags by commas."""
        out = dict(vars(self))
        out["equal_work"] = _summary(self.work)
        out["work"] = "; ".join(map(str, self.work))
        out["reasons"] = "; ".join(self.reasons)
        out["modes"] = "; ".join(self.modes)
        out["flags"] = ",".join(self.flags)
        return out

    def expectation(self, quantity: str, expected: tuple[float, float]) -> str:
        """`supported`, `refuted` or `undecided` for `time_ratio` or `exposed_ns`.

        It must hold in whichever mode each arm is; a void or blocked contrast decides nothing.  Raises InputError.
        """
        bounds = {
            "time_ratio": (self.modes_time_ratio_low, self.modes_time_ratio_high),
            "exposed_ns": (self.modes_exposed_low_ns, self.modes_exposed_high_ns),
        }
        if quantity not in bounds:
            raise InputError(f"expects {quantity!r}: a contrast can judge {' and '.join(bounds)} only")
        if self.verdict == "void" or self.blocked:
            return "undecided"
        return judge(*bounds[quantity], expected)


def _summary(checks: Sequence[work.WorkCheck]) -> str:
    """`equal`, `unequal`, `not checked`, or `none asked`, whichever is worst."""
    states = {check.equal for check in checks}
    if False in states:
        return "unequal"
    return "not checked" if None in states else ("equal" if states else "none asked")


def contrast(
    runs: pd.DataFrame,
    times: pd.DataFrame,
    checks: pd.DataFrame,
    counters: pd.DataFrame,
    *,
    base: str,
    arm: str,
    null_arm: str | None = "null",
    stage: str = "operator",
    scope: str | None = None,
    same: Sequence[str] = (),
    question: str | None = None,
    declared: Mapping[str, Mapping[str, Any]] | None = None,
    margin: float = MARGIN,
    tick_ns: float = math.nan,
    planned_rounds: int = 0,
) -> Contrast:
    """The contrast of `arm` against `base` at the one point (shape, distribution) in `runs`.

    `scope` is an instrument (`event`) or a full scope (`event/warm/as-found`); None takes the only
    one there is. `same` names the counters that must be equal, `declared` maps a variant to its
    resolved flags, `tick_ns` is the timer's, `planned_rounds` those that were meant to be. `null_arm`
    None says that there is none; then there is no floor. Void: missing arm, wrong output, unequal
    work or inputs, wrong label, unlike scope.
    Raises DataError for two scopes, two points, or an arm that ran twice in a round.
    """
    here = point(runs, base, arm, null_arm, question)
    group = (question or only(here, "question") or base, base, arm)
    place = (*group, only(here, "shape"), only(here, "distribution"))
    timed = scoped(times[(times["stage"] == stage) & times["run"].isin(here["run"])], scope)
    label = "/".join(sorted(set(timed["scope_label"]))) or (scope or "")
    void = void_reasons(here, times, timed, checks, base, arm, null_arm, stage, declared)
    ended = [status == "ok" for status in here["status"].tolist()]
    ran = here if all(ended) else here[ended]
    pairs = pair_rounds(ran, timed, base, arm)
    void += work.unequal_inputs(pairs)
    equal = work.equal_work(ran, counters, base, arm, same, stage)
    void += [f"unequal work: {check}" for check in equal if check.equal is False]
    blocked, notes, flags, modes = doubts(
        here, timed, checks, equal, pairs, base, arm, null_arm, tick_ns, planned_rounds
    )
    floored = null_arm is not None and arm != null_arm
    found = estimate(pairs, pair_rounds(ran, timed, base, str(null_arm)) if floored else None, tick_ns)
    by_modes = combinations(modes[base], modes[arm], tick_ns) if {base, arm} <= {*modes} else []
    names = told(modes)
    verdict, reason = settle(found.pop("log"), [one.log for one in by_modes], names, found["null_floor"], margin)
    in_cycles = clock.contrast_in_cycles(ran, timed, base, arm, stage, label)
    notes += clock.told(in_cycles)
    if null_arm is None:
        notes.append("no null arm: the noise floor is not known")
    elif floored and math.isnan(found["null_floor"]):
        blocked.append(f"null arm {null_arm} gives no noise floor")
    if void:
        verdict, reasons = "void", void
    elif blocked:
        verdict, reasons = "undecided", [f"{AT_BEST}{b}" for b in blocked] + [reason]
    else:
        reasons = [reason]
    shared: dict[str, Any] = {"work": equal, "flags": flags, "modes": names, "margin": margin, "blocked": bool(blocked)}
    shared |= {**found, **spanned(found, by_modes), **in_cycles}
    return Contrast(*place, label, stage, verdict, (*reasons, *notes), **shared)


def contrasts(
    runs: pd.DataFrame,
    times: pd.DataFrame,
    checks: pd.DataFrame,
    counters: pd.DataFrame,
    *,
    null_arm: str | None = "null",
    stage: str = "operator",
    scope: str | None = None,
    same: Mapping[str, Sequence[str]] | None = None,
    expects: Mapping[str, Mapping[str, tuple[float, float]]] | None = None,
    only_arms: Container[str] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """A row for each arm, point and scope of a recording: `Contrast.row()` and the expectation.

    The base of a group is the arm that its question is named after. `same` and `expects` are by
    arm: the counters that must be equal, and as `stated_for` takes it; `only_arms` None takes
    all; the other options are those of `contrast`. Columns `expected` and `expectation` hold texts, '' where none was written.
    """
    rows = []
    for key, here in runs.groupby(["question", "shape", "distribution"], observed=True, sort=False):
        base = str(key[0])
        for part in _by_knobs(here, base):
            # Each contrast asks them anew, and most of a recording is about other points.
            near, looked, counted = (t[t["run"].isin(part["run"])] for t in (times, checks, counters))
            mine = near[near["stage"] == stage]
            arms = [a for a in part["arm"].astype(str).unique() if a != base and (only_arms is None or a in only_arms)]
            labels: list[str | None] = [*scopes(mine, scope)] or [scope]
            for label in labels:
                for arm in arms:
                    found = contrast(
                        part, near, looked, counted, base=base, arm=arm, null_arm=null_arm,
                        stage=stage, scope=label, same=(same or {}).get(arm, ()), **options,
                    )  # fmt: skip
                    rows.append(found.row() | _expected(found, (expects or {}).get(arm, {})))
    return pd.DataFrame(rows)


def _by_knobs(here: pd.DataFrame, base: str) -> list[pd.DataFrame]:
    """The runs of a group, one part for each set of knobs where the base has several."""
    knobs = here.loc[here["arm"] == base, "knobs"].astype(str).unique()
    return [here] if len(knobs) < 2 else [here[here["knobs"] == value] for value in knobs]


def _expected(found: Contrast, expects: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    """The columns `expected` and `expectation` of one contrast."""
    quantities, beyond = stated_for(expects, found.shape)
    texts = [f"{name} in [{low:g}, {high:g}]" for name, (low, high) in quantities.items()]
    judged = [found.expectation(name, (low, high)) for name, (low, high) in quantities.items()]
    worst = [word for word in ("refuted", "undecided", "supported") if word in judged]
    if worst and beyond:
        texts, worst = [*texts, beyond], ["undecided"]
    return {"expected": "; ".join(texts), "expectation": worst[0] if worst else ""}
