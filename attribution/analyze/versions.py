"""Versions of a kernel side by side on the roofline: one row an arm that computes everything.

In: an opened recording.  Out: a frame: time, effective rate, shares of both ceilings, intensities by arithmetic and by counters.
Arms that leave a part of the work out are controls, not versions: a rate of theirs would count work that was not done.
Misuse: `step` compares neighbours inside the rounds of one question; rates of two recordings are compared by their intervals.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from attribution.analyze import ledger, roofline, stats
from attribution.analyze.interventions import choose_scope
from attribution.analyze.ladder import paired, ratio_interval
from attribution.analyze.tiles import tile_keys
from attribution.errors import InputError
from attribution.plan import NULL
from attribution.recording import Recording

PARTS = ("MMA", "REDUCE", "FILTER", "SELECT", "EMIT")
"""Flags of which each takes away a part of the answer."""
SECTOR_BYTES = 32


def versions(
    recording: Recording, stage: str = "main", scope: str | None = None, practical_flop_per_s: float = math.nan
) -> pd.DataFrame:
    """Columns: arm, shape, block_q, those of `roofline.point`, tflops_low, tflops_high (95 % over rounds), dram_bytes and
    l2_bytes (counted, of one launch), dram_intensity_counted, l2_intensity_counted, matrix_overhead (executed over useful FLOP),
    step (time over the row before), step_low, step_high, scope.  NaN where something was not counted.

    Raises InputError for a kernel without queries and keys or a stage that was not timed, DataError for an impossible rate.
    """
    times, runs = recording.table("times"), recording.table("runs")
    where = (stage, choose_scope(times, scope, stage))
    ceiling = ledger.practical_ceiling(recording.table("counters"))
    ceiling = practical_flop_per_s if math.isnan(ceiling) else ceiling
    timed = runs[runs["run"].isin(times.loc[times["stage"] == stage, "run"]) & (runs["status"] == "ok")]
    rows: list[dict[str, Any]] = []
    for question in recording.manifest["plan"]["questions"]:
        before = ""
        for arm in (a["name"] for a in question["arms"]):
            mine = timed[(timed["question"] == question["base"]) & (timed["arm"] == arm)]
            if arm == NULL or mine.empty or not computes_all(json.loads(str(mine["flags"].iloc[0])), stage):
                continue
            rows.append(_version(recording, question["base"], (before, arm), mine, where, ceiling))
            before = arm
    if not rows:
        raise InputError(f"{recording.path.name}: no arm that computes everything has a time of stage {stage!r}")
    return pd.DataFrame(rows)


def _version(
    recording: Recording,
    base: str,
    arms: tuple[str, str],
    mine: pd.DataFrame,
    where: tuple[str, str | None],
    ceiling: float,
) -> dict[str, Any]:
    """The row of arms[1], whose runs are `mine`; arms[0] is the version before it, '' for the first."""
    shape, flags = recording.manifest["plan"]["shape"], json.loads(str(mine["flags"].iloc[0]))
    if not {"q", "n"} <= set(shape) or not {"K", "BLOCK_Q"} <= set(flags):
        raise InputError(f"{recording.path.name}: a roofline of scores needs shape q and n, and flags K and BLOCK_Q")
    before, arm = arms
    tables = (recording.table("runs"), recording.table("times"))
    found = paired(*tables, base, [*([before] if before else []), arm], *where)
    ns = stats.intervals(found.of(arm))
    chip = roofline.CHIPS.get(str(recording.manifest["machine"]["name"]))
    sizes = (int(shape["q"]), int(shape["n"]), int(flags["K"]), int(flags["BLOCK_Q"]))
    keys = tile_keys(sizes[3], str(recording.manifest["machine"]["kind"]))
    row = roofline.point(*sizes, float(ns.center[0]), ceiling, chip, keys)
    useful = row["useful_flop"]
    # One round has no interval.
    low, high = (roofline.tflops(useful, float(end)) if end > 0 else math.nan for end in (ns.high[0], ns.low[0]))
    step = (math.nan,) * 3
    if before:
        step = ratio_interval(found.of(arm), found.of(before))
    return {
        "question": base, "arm": arm, "shape": str(mine["shape"].iloc[0]), "block_q": sizes[3],
        **row, "tflops_low": low, "tflops_high": high,
        **_counted(recording.table("counters"), mine, where[0], useful, chip),
        "step": step[1], "step_low": step[0], "step_high": step[2], "scope": found.scope,
    }  # fmt: skip


def computes_all(flags: Mapping[str, Any], stage: str) -> bool:
    """Whether an arm with these flags answers; the unfused operator does too, in another stage than main."""
    return all(flags.get(part, True) for part in PARTS) or bool(flags.get("STORE_SCORES") and stage == "operator")


def _counted(
    counters: pd.DataFrame, runs: pd.DataFrame, stage: str, useful: float, chip: roofline.Chip | None
) -> dict[str, float]:
    """What Nsight counted of one launch of the stage; NaN where it did not."""
    mine = counters[
        counters["run"].isin(runs["run"])
        & (counters["scope"] == "ncu")
        & (counters["instance"] == "")
        & (counters["state"] != "absent")
    ]
    mine = mine[mine["stage"] == stage] if stage != "operator" else mine
    per_run = mine.astype({"metric": str}).groupby(["metric", "run"])["value"].sum().groupby("metric").mean()
    dram = per_run.get("dram_read_bytes", math.nan) + per_run.get("dram_write_bytes", math.nan)
    l2 = per_run.get("l2_sectors", math.nan) * SECTOR_BYTES
    pipe = chip.flop_per_cycle_sm / roofline.TENSOR_PIPES if chip else math.nan
    return {
        "dram_bytes": float(dram), "l2_bytes": float(l2),
        "dram_intensity_counted": float(useful / dram), "l2_intensity_counted": float(useful / l2),
        "matrix_overhead": float(per_run.get("tensor_cycles_active", math.nan) * pipe / useful),
    }  # fmt: skip
