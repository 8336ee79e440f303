"""Arms of one recording side by side: their times, what the profiler counted of them a pair, and what fusing can save at most.

In: an opened recording and names of arms.  Out: a row a quantity and arm; the bound of an unfused pipeline.
Counters are of scope ncu and times of another: no quantity here mixes the two, and none is a verdict.
Misuse: a counter that is high is no cause; the arms that change one mechanism say which one is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from attribution.analyze import stats
from attribution.analyze.pairing import scoped
from attribution.analyze.roofline import TENSOR_PIPES, causal_pairs
from attribution.declare import nearest
from attribution.errors import DataError, InputError
from attribution.recording import Recording

SECTOR_BYTES = 32
PAIRS = "pairs"
QUANTITIES: dict[str, tuple[tuple[str, ...], str, float, str]] = {
    "thread instructions a pair": (("thread_instructions",), PAIRS, 1.0, "instructions"),
    "issue slots used": (("issue_slots_used",), "issue_slots", 1.0, "share"),
    "eligible warps a scheduler": (("eligible_warps",), "issue_slots", 1.0, "warps"),
    "tensor pipe active": (("tensor_cycles_active",), "sm_cycles_elapsed", 1 / TENSOR_PIPES, "share"),
    "L2 hit rate": (("l2_sectors_hit",), "l2_sectors", 1.0, "share"),
    "L2 traffic": (("l2_sectors",), "duration", SECTOR_BYTES * 1e9, "byte/s"),
    "DRAM traffic": (("dram_read_bytes", "dram_write_bytes"), "duration", 1e9, "byte/s"),
}
"""Name -> counters that are added up, the counter they are divided by, a factor, the unit."""
OVERLAP = "tensor pipe + issue slots"
"""Both shares together: by what it is above 1, matrix work and other instructions must have run at the same time."""
UNITS = {name: unit for name, (*_, unit) in QUANTITIES.items()} | {OVERLAP: "share"}


@dataclass(frozen=True)
class Bound:
    """What an unfused pipeline spends on its score matrix at least: written once, read once, at the rate of a copy."""

    arm: str
    written_byte: float
    copy_byte_per_s: float
    bound_ns: float
    operator_ns: float
    share: float
    share_low: float
    share_high: float
    scope: str


def place_of(recording: Recording, arm: str) -> str:
    """The question in which `arm` is looked at: its own where it is a base, else the first that has it.  Raises InputError."""
    if recording.manifest["kind"] != "run":
        raise InputError(f"{recording.path} holds ingested files, not measured arms: use `attr show`")
    questions = {str(q["base"]): [str(a["name"]) for a in q["arms"]] for q in recording.manifest["plan"]["questions"]}
    if arm in questions:
        return arm
    for base, arms in questions.items():
        if arm in arms:
            return base
    known = sorted({a for arms in questions.values() for a in arms})
    raise InputError(f"arm {arm!r} is not in {recording.path.name}{nearest(arm, known)}; it has: {', '.join(known)}")


def _runs(recording: Recording, arm: str) -> pd.DataFrame:
    runs = recording.table("runs")
    return runs[(runs["question"] == place_of(recording, arm)) & (runs["arm"] == arm) & (runs["status"] == "ok")]


def counted(recording: Recording, arm: str, stage: str = "main") -> dict[str, float]:
    """QUANTITIES and OVERLAP of an arm, mean over its profiled runs; NaN where a counter is absent.  Raises InputError.

    A share above 1 is not known either: its two counters are of replay passes that saw unlike traffic.
    """
    counters = recording.table("counters")
    mine = counters[
        counters["run"].isin(_runs(recording, arm)["run"])
        & (counters["stage"] == stage)
        & (counters["scope"] == "ncu")
        & (counters["instance"] == "")
        & (counters["state"] != "absent")
    ]
    per_run = mine.astype({"metric": str}).groupby(["metric", "run"])["value"].sum().groupby("metric").mean()
    shape = recording.manifest["plan"]["shape"]
    if {"q", "n"} <= set(shape):
        per_run[PAIRS] = float(causal_pairs(int(shape["q"]), int(shape["n"])))
    out = {}
    for name, (parts, under, factor, unit) in QUANTITIES.items():
        above = sum(float(per_run.get(part, math.nan)) for part in parts)
        below = float(per_run.get(under, math.nan))
        value = factor * above / below if below else math.nan
        out[name] = math.nan if unit == "share" and value > 1 else value
    out[OVERLAP] = out["tensor pipe active"] + out["issue slots used"]
    return out


def times(recording: Recording, arm: str, stage: str, scope: str | None) -> stats.Intervals:
    """Mean over rounds of an arm's time of `stage`, ns, with its interval; a run's time is the median of its samples."""
    runs = _runs(recording, arm)
    table = recording.table("times")
    timed = scoped(table[(table["stage"] == stage) & table["run"].isin(runs["run"])], scope)
    per_run = timed.groupby("run")["time_ns"].median().sort_index()
    if per_run.empty:
        raise DataError(f"arm {arm} has no time of stage {stage!r}" + (f" in scope {scope}" if scope else ""))
    return stats.intervals(per_run.to_numpy(float), resolution=float(recording.manifest["machine"]["tick_ns"]))


def side_by_side(recording: Recording, arms: Sequence[str], scope: str | None) -> list[dict[str, Any]]:
    """One mapping an arm: arm, question, main and operator in ns with bounds, and `counted`.  Raises InputError, DataError."""
    out = []
    for arm in arms:
        row: dict[str, Any] = {"arm": arm, "question": place_of(recording, arm)}
        for stage in ("main", "operator"):
            found = times(recording, arm, stage, scope)
            ends = ("", float(found.center[0])), ("_low", float(found.low[0])), ("_high", float(found.high[0]))
            row |= {f"{stage}{end}_ns": value for end, value in ends}
        out.append({**row, **counted(recording, arm)})
    return out


def fusing_bound(recording: Recording, arm: str, scope: str | None) -> Bound:
    """The most that fusing can save against `arm`, which writes the scores.  Raises DataError where something was not counted."""
    counters = recording.table("counters")
    known = counters[counters["state"] == "value"]
    written = known[
        known["run"].isin(_runs(recording, arm)["run"])
        & (known["metric"] == "dram_write_bytes")
        & (known["stage"] == "main")
    ]
    rates = known.loc[known["metric"] == "copy_byte_per_s", "value"]
    if written.empty or rates.empty:
        missing = "bytes written" if written.empty else "rate of a copy"
        raise DataError(f"{recording.path.name} has no {missing} of {arm}: measure it with --scope ncu on a GPU")
    size, rate = float(written.groupby("run")["value"].sum().mean()), float(rates.median())
    whole = times(recording, arm, "operator", scope)
    bound = 2 * size / rate * 1e9
    value, low, high = (float(v[0]) for v in (whole.center, whole.low, whole.high))
    return Bound(arm, size, rate, bound, value, bound / value, bound / high, bound / low, scope or "")
