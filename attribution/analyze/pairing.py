"""Which runs and times make a pair: one point, one scope, one run of each arm per round.

In: the tables runs and times.  Out: selections of them, and one row per paired round.
Misuse: nothing is averaged over shapes, knobs or scopes here; what is left ambiguous raises.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from attribution.errors import DataError


def means(scope: str, label: str) -> bool:
    """Whether `scope`, an instrument or a label (instrument/cache/clock), means this label."""
    return scope in (label, label.split("/")[0])


def scopes(times: pd.DataFrame, scope: str | None = None) -> list[str]:
    """Labels (instrument/cache/clock) of the scopes there are; with `scope`, an instrument or a label, of those it means."""
    parts = times[["scope", "cache", "clock"]].drop_duplicates().astype(str)
    labels = ["/".join(part) for part in parts.to_numpy().tolist()]
    return [x for x in labels if scope is None or means(scope, x)]


def scoped(times: pd.DataFrame, scope: str | None) -> pd.DataFrame:
    """The rows of one scope, with a column `scope_label` (instrument/cache/clock).

    Raises DataError when two scopes are left, and names both.
    """
    parts = [times[column].tolist() for column in ("scope", "cache", "clock")]
    label = np.array(["/".join(part) for part in zip(*parts, strict=True)], dtype=object)
    if scope is not None:
        mine = (times["scope"] == scope).to_numpy() | (label == scope)
        times, label = times[mine], label[mine]
    if len(both := sorted(set(label))) > 1:
        raise DataError(f"times of two scopes cannot be combined: {both[0]} and {both[1]}; choose one scope")
    return times.assign(scope_label=label)


def only(here: pd.DataFrame, column: str) -> str:
    """The only value of a column, '' when there are no rows.  Raises DataError."""
    values = sorted(set(here[column].tolist()))
    if len(values) > 1:
        raise DataError(
            f"one contrast needs one {column}, and these runs have {values[0]} and {values[1]}; "
            "narrow the runs, or use contrasts() for a row each"
        )
    return values[0] if values else ""


def point(runs: pd.DataFrame, base: str, arm: str, null_arm: str | None, question: str | None) -> pd.DataFrame:
    """The runs of the arms, of one question.  Raises DataError."""
    arms, asked = runs["arm"].tolist(), runs["question"].tolist()
    if question is None:
        shared = set.intersection(*({q for a, q in zip(arms, asked, strict=True) if a == name} for name in (base, arm)))
        question = base if base in shared or len(shared) != 1 else shared.pop()
    mine = [a in (base, arm, null_arm) and q == question for a, q in zip(arms, asked, strict=True)]
    return runs[np.array(mine, dtype=bool)]  # an empty list would choose no columns


def pair_rounds(ran: pd.DataFrame, timed: pd.DataFrame, base: str, arm: str) -> pd.DataFrame:
    """One row per round that both arms finished: round, base_ns, arm_ns, inputs_base, inputs_arm.

    A run's time is the median of its samples.  Raises DataError for an arm twice in a round, or a time
    that is not finite and above 0.
    """
    per_run = timed.groupby("run")["time_ns"].median()
    known = dict(zip(per_run.index.tolist(), per_run.tolist(), strict=True))
    sides: dict[str, dict[int, tuple[float, str]]] = {base: {}, arm: {}}
    for run, number, name, inputs in zip(*(ran[c].tolist() for c in ("run", "round", "arm", "inputs")), strict=True):
        if name not in sides or run not in known:
            continue
        if not 0 < (ns := known[run]) < np.inf:
            raise DataError(
                f"run {run} (arm {name}, round {number}) took {ns:g} ns: allowed is a finite time above 0; measure again"
            )
        if number in sides[name]:
            raise DataError(
                f"arm {name} ran more than once in round {number} of one point: "
                "narrow the runs to one set of knobs and one recording"
            )
        sides[name][number] = ns, inputs
    both = sorted(set(sides[base]) & set(sides[arm]))
    columns = {
        f"{what}_{side}" if what == "inputs" else f"{side}_ns": [sides[name][number][i] for number in both]
        for i, what in enumerate(("ns", "inputs"))
        for side, name in (("base", base), ("arm", arm))
    }
    return pd.DataFrame({"round": both, **columns})
