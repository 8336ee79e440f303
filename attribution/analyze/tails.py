"""Who finishes last: rows, CTAs, busy and finish time of every SM of the device, those without work included.

In: spans, table `rows`, and the number of SMs of the device.  Out: one row per run and SM, and a summary per run.
Misuse: the number of SMs is the device's own; the largest id seen says nothing, and ids are not dense.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from attribution.analyze.active import Active, processing, union_of_lanes
from attribution.analyze.nesting import stretches
from attribution.errors import DataError


def per_sm(spans: pd.DataFrame, rows: pd.DataFrame, sms: int, active: Active | None = None) -> pd.DataFrame:
    """run, sm, ctas, rows, busy_ns (at least one role processes), finish_ns; `sms` rows a run.

    active: `active.processing(spans)`, where it is known.  Raises DataError.
    """
    for name, frame in (("spans", spans), ("rows", rows)):
        if len(frame) and not 0 <= int(frame["sm"].min()) <= int(frame["sm"].max()) < sms:
            raise DataError(f"{name}: SM id {int(frame['sm'].max())} on a device of {sms} SMs")
    runs = np.unique(rows["run"].to_numpy())
    index = pd.MultiIndex.from_product([runs, range(sms)], names=["run", "sm"])
    grouped = rows.groupby(["run", "sm"])
    out = pd.DataFrame(index=index)
    out["ctas"] = grouped["cta"].nunique()
    out["rows"] = grouped["rows"].sum()
    active = processing(spans) if active is None else active
    owner = np.searchsorted(runs, active.run) * np.int64(sms) + active.sm
    out["busy_ns"] = union_of_lanes(owner, active.starts, active.begin_ns, active.end_ns, len(index))
    out["finish_ns"] = _finish(spans)
    return out.fillna(0).astype(np.int64).reset_index()


def _finish(spans: pd.DataFrame) -> pd.Series:
    """End of the last work span, by run and SM."""
    columns = {name: spans[name].to_numpy() for name in ("run", "cta", "sm")}
    columns["role"] = spans["role"].cat.codes.to_numpy()
    starts = stretches(columns)
    if not len(starts):
        return pd.Series(dtype=np.int64, index=pd.MultiIndex.from_arrays([[], []], names=["run", "sm"]))
    never = np.iinfo(np.int64).min
    ends = np.maximum.reduceat(np.where(spans["wait"].to_numpy(), never, spans["end_ns"].to_numpy()), starts)
    lanes = pd.DataFrame({"run": columns["run"][starts], "sm": columns["sm"][starts], "end_ns": ends})
    return lanes[lanes["end_ns"] > never].groupby(["run", "sm"])["end_ns"].max()


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Per run: busiest_sm_rows, sms_with_it, mean_rows, idle_sms, finish_ns, mean_finish_ns, tail_ns (last minus mean)."""
    grouped = table.groupby("run")
    busiest = grouped["rows"].transform("max") == table["rows"]
    out = pd.DataFrame(
        {
            "busiest_sm_rows": grouped["rows"].max(),
            "sms_with_it": busiest.groupby(table["run"]).sum(),
            "mean_rows": grouped["rows"].mean(),
            "idle_sms": (table["rows"] == 0).groupby(table["run"]).sum(),
            "waves": grouped["ctas"].max(),
            "finish_ns": grouped["finish_ns"].max(),
            "mean_finish_ns": grouped["finish_ns"].mean(),
        }
    )
    out["tail_ns"] = out["finish_ns"] - out["mean_finish_ns"]
    return out.reset_index()
