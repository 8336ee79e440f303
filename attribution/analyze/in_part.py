"""Traces of some CTAs only: a GPU records single tiles (TRACE = 2) of the first few, and nothing of the others.

In: an opened recording.  Out: which runs are of that kind, and table `rows` without them.
What the traced CTAs did is whole; who finishes last, which SMs had nothing to do and how many rows one had is not known then.
"""

from __future__ import annotations

import pandas as pd

from attribution.recording import Recording


def in_part(recording: Recording) -> pd.DataFrame:
    """Index: runs in which fewer CTAs of stage main were traced than were launched; columns traced, ctas.

    The launch is counted in some runs of an arm and is alike in all of them; where it was not counted a trace passes as whole.
    """
    counters, lanes, runs = map(recording.table, ("counters", "lanes", "runs"))
    grid = counters[(counters["metric"] == "grid_ctas") & (counters["stage"] == "main")]
    of = runs.set_index("run")[["question", "arm", "shape"]].astype(str).agg(tuple, axis=1)
    launched = grid.groupby("run")["value"].first()
    launched = launched.groupby(of.reindex(launched.index)).max()
    traced = lanes.groupby("run")["cta"].nunique()
    found = pd.DataFrame({"traced": traced, "ctas": launched.reindex(of.reindex(traced.index)).to_numpy()})
    return found[found["traced"] < found["ctas"]].astype(int)


def rows_of_whole_traces(recording: Recording) -> pd.DataFrame:
    """Table `rows` of the runs in which every CTA was traced: what the others' rows are, only their own records say."""
    rows = recording.table("rows")
    return rows[~rows["run"].isin(in_part(recording).index)]
