"""Interactions of declared factor pairs: does one mechanism cost more when another is changed too?

In: tables runs, times, counters, checks, and the variants of a manifest (`factors` names two flags).  Out: a row a pair.
A pair needs four cells: base, the variant, and each of them without the second factor, which is in general the base of a
question of its own; each difference is taken within the rounds of its question.
Misuse: an interaction of 0 within its interval is "not seen", not "there is none".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from attribution.analyze import stats
from attribution.analyze.ladder import Variants, judge, paired
from attribution.errors import DataError


def interactions(
    tables: Mapping[str, pd.DataFrame],
    variants: Variants,
    stage: str = "main",
    scope: str | None = None,
    tick_ns: float = math.nan,
) -> pd.DataFrame:
    """Terms of all declared factor pairs: how much more the second factor's mechanism costs when the first is changed too.

    For `v` with factors [A, B]: (T(v) - T(v without B)) - (T(base) - T(base without B)), each difference within the rounds of
    its own question.  Columns: variant, factors, off (the arm without B), term_ns, low_ns, high_ns, alone_ns (base's
    difference), changed_ns (v's), rounds, verdict, reason.  A pair that lacks an arm is a row that says so.
    """
    rows = []
    runs = tables["runs"]
    arms = runs[["question", "arm"]].astype(str).drop_duplicates()
    for name, facts in variants.items():
        if not facts.get("factors") or facts["base"] is None:
            continue
        row: dict[str, Any] = {"variant": name, "factors": " x ".join(facts["factors"]), "off": ""}
        row |= dict.fromkeys(("term_ns", "low_ns", "high_ns", "alone_ns", "changed_ns"), math.nan) | {"rounds": 0}
        cells = _cells(variants, name, set(zip(arms["question"], arms["arm"], strict=True)))
        if cells is None:
            reason = f"not measured: needs {facts['base']} and {name}, and each of them without {facts['factors'][1]}"
            rows.append({**row, "verdict": "not measured", "reason": reason})
            continue
        rows.append(row | _interaction(tables, variants, name, cells, stage, scope, tick_ns))
    return pd.DataFrame(rows)


def _cells(variants: Variants, name: str, measured: set[tuple[str, str]]) -> tuple[str, str] | None:
    """The arms without the second factor below base and below `name`, with the same change; None where one is missing."""
    base, second = variants[name]["base"], variants[name]["factors"][1]
    if (base, base) not in measured or (name, name) not in measured:
        return None

    def change(arm: str, of: str) -> dict[str, Any]:
        own = variants[of]["flags"]
        return {f: v for f, v in variants[arm]["flags"].items() if f not in own or own[f] != v}

    below = {of: [a for q, a in measured if q == of and a in variants and a != of] for of in (base, name)}
    for one in sorted(below[base]):
        changed = change(one, base)
        if second in changed:
            for other in sorted(below[name]):
                if change(other, name) == changed:
                    return one, other
    return None


def _interaction(
    tables: Mapping[str, pd.DataFrame],
    variants: Variants,
    name: str,
    cells: tuple[str, str],
    stage: str,
    scope: str | None,
    tick_ns: float,
) -> dict[str, Any]:
    base = variants[name]["base"]
    sides = [
        paired(tables["runs"], tables["times"], top, [top, off], stage, scope, tick_ns)
        for top, off in ((base, cells[0]), (name, cells[1]))
    ]
    if sides[0].scope != sides[1].scope:
        raise DataError(
            f"times of two scopes cannot be combined: {sides[0].scope} and {sides[1].scope}; choose one scope"
        )
    common, left, right = np.intersect1d(sides[0].rounds, sides[1].rounds, return_indices=True)
    alone = (sides[0].time_ns[:, 0] - sides[0].time_ns[:, 1])[left]
    changed = (sides[1].time_ns[:, 0] - sides[1].time_ns[:, 1])[right]
    found = stats.intervals(changed - alone, resolution=4 * tick_ns)
    low, high = float(found.low[0]), float(found.high[0])
    verdicts = [
        judge(tables, variants, side, off, top, top, (low, high))
        for side, top, off in zip(sides, (base, name), cells, strict=True)
    ]
    worst = next((v for w in ("void", "undecided") for v in verdicts if v[0] == w), verdicts[0])
    return {
        "off": " and ".join(cells), "term_ns": float(found.center[0]), "low_ns": low, "high_ns": high,
        "alone_ns": float(alone.mean()), "changed_ns": float(changed.mean()), "rounds": len(common),
        "verdict": worst[0], "reason": worst[1],
    }  # fmt: skip
