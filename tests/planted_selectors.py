"""A sweep of selectors whose answers are known: times follow laws of the width, and one thing is planted in each.

Out: frames in the tables of `attribution.tables`.  Nothing here is a measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd
from planted import measured

BASE = "torch_topk"
Law = Callable[[int], float]
"""Columns -> ns."""


def sweep(
    laws: Mapping[str, Mapping[str, Law]], widths: tuple[int, ...], rows: int = 64, rounds: int = 8, sd: float = 0.002
) -> dict[str, pd.DataFrame]:
    """runs, times and checks: distribution -> selector -> law, at every width; the base and a null arm are added."""
    parts: dict[str, list[pd.DataFrame]] = {}
    first = 0
    for number, (distribution, columns) in enumerate((d, c) for d in laws for c in widths):
        base = laws[distribution].get(BASE, lambda width: 100.0 * width)(columns)
        ratios = {BASE: 1.0, "null": 1.0}
        ratios |= {name: law(columns) / base for name, law in laws[distribution].items() if name != BASE}
        made = measured(ratios, rounds=rounds, sd=sd, seed=number, base_ns=base)
        for name in ("runs", "times", "checks"):
            frame = made[name].astype(object)
            frame["run"] += first
            if name == "runs":
                frame = frame.assign(shape=f"rows={rows},columns={columns},k=512", distribution=distribution)
            parts.setdefault(name, []).append(frame)
        first += len(made["runs"])
    return {name: pd.concat(frames, ignore_index=True).infer_objects() for name, frames in parts.items()}


def planted(
    tables: Mapping[str, pd.DataFrame], arm: str, distribution: str, **changes: object
) -> dict[str, pd.DataFrame]:
    """The same with columns of `checks` or `runs` of one arm on one distribution set to other values."""
    runs, checks = tables["runs"].copy(), tables["checks"].copy()
    mine = (runs["arm"].astype(str) == arm) & (runs["distribution"].astype(str) == distribution)
    of = checks["run"].isin(runs.loc[mine, "run"])
    for name, value in changes.items():
        if name in checks:
            checks.loc[of, name] = value
        else:
            runs.loc[mine, name] = value
    return {**tables, "runs": runs, "checks": checks}
