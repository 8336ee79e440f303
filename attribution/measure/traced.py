"""A decoded trace as a recording's tables: events, lanes, rows of each CTA, and the time from first to last stamp.

In: `RawTrace` of one launch.  Out: frames without their `run` column.
Misuse: a traced build's durations say where time goes, not how long the plain build takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attribution.declare import Kernel

if TYPE_CHECKING:
    import pandas as pd

    from attribution.ingest.trace import RawTrace


def trace_tables(kernel: Kernel, raw: RawTrace, total_rows: int, cache: str) -> dict[str, pd.DataFrame]:
    """Tables `events`, `lanes`, `rows` and `times` (scope trace, stage main, under the policy `cache`)."""
    import pandas as pd

    out = {"events": raw.events, "lanes": raw.lanes, "rows": rows_of(kernel, raw, total_rows)}
    out = {name: frame.drop(columns="run", errors="ignore") for name, frame in out.items()}
    anchors = raw.anchors
    if len(anchors):
        cycles = (anchors["clock_end"] - anchors["clock_begin"]) / (anchors["end_ns"] - anchors["begin_ns"])
        time = {
            "scope": "trace",
            "stage": "main",
            "cache": cache,
            "clock": "as-found",
            "sample": 0,
            "time_ns": float(anchors["end_ns"].max() - anchors["begin_ns"].min()),
            "clock_mhz": float(cycles.median() * 1e3),
            "flags": "records-lost" if (raw.lanes["attempts"] > raw.lanes["capacity"]).any() else "",
        }
        out["times"] = pd.DataFrame([time])
    else:
        out["times"] = pd.DataFrame()
    return out


def rows_of(kernel: Kernel, raw: RawTrace, total_rows: int) -> pd.DataFrame:
    """cta, sm, rows: from the first rows that work events of level 1 name.

    A batch reaches to the next first row that any CTA names, the last one to `total_rows`.  A CTA without work has 0 rows.
    """
    import numpy as np
    import pandas as pd

    work = [i for i, e in enumerate(kernel.events) if e.kind == "work" and e.level == 1]
    begins = raw.events[(raw.events["edge"] == 0) & raw.events["event"].isin(work)]
    pairs = begins[["cta", "arg"]].drop_duplicates()
    firsts = np.unique(pairs["arg"].to_numpy())
    size = dict(zip(firsts.tolist(), np.diff(np.append(firsts, total_rows)).tolist(), strict=True))
    per_cta = pairs["arg"].map(size).groupby(pairs["cta"].to_numpy()).sum()
    lanes = raw.lanes.drop_duplicates("cta")
    rows = per_cta.reindex(lanes["cta"]).fillna(0).astype(int).to_numpy()
    return pd.DataFrame({"cta": lanes["cta"].to_numpy(), "sm": lanes["sm_begin"].to_numpy(), "rows": rows})
