"""The SM that finishes last, as an account: every ns of it has one owner, all as shares of its own total.

In: spans of one or many traced runs.  Out: one row a run: processing, waits, fill and drain of the role that sets the pace.
The pace role is the last but one in the pipeline (Math); its consumer is the last (TopK).
Misuse: shares of a traced build; they are compared with shares of other instruments, never multiplied into their times
without saying so.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attribution.analyze import overlap
from attribution.analyze.active import union_ns

SHARES = ["fill", "processing", "wait_upstream", "wait_consumer", "drain", "unowned", "idle"]
"""Columns of `account`; they add up to 1."""


def on_last_sm(spans: pd.DataFrame) -> pd.DataFrame:
    """The spans of each run's SM on which the last work ends."""
    ends = spans["end_ns"].where(~spans["wait"])
    last = spans.loc[ends.groupby(spans["run"]).idxmax(), ["run", "sm"]]
    of = pd.Series(last["sm"].to_numpy(), index=last["run"].to_numpy())
    on_it: NDArray[np.bool_] = spans["sm"].to_numpy() == of.reindex(spans["run"]).to_numpy()
    return spans.loc[on_it]


def account(spans: pd.DataFrame) -> pd.DataFrame:
    """One row a run: run, sm, total_ns, and SHARES of it.

    Of each CTA on that SM: `fill` until the pace role begins, `drain` after it has ended, in between its processing, its waits
    for roles before it and for the consumer, and what it does in no span (`unowned`); `idle` is between the CTAs.
    `total_ns` runs from the first begin on any SM to the last end.  CTAs that share the SM at one time count by their mean.
    """
    spans = spans.reset_index(drop=True)
    first = spans.groupby("run")["begin_ns"].min()
    mine = on_last_sm(spans)
    pace = str(mine["role"].cat.categories[-2])
    ctas = mine.groupby(["run", "cta"]).agg(begin=("begin_ns", "min"), end=("end_ns", "max"))
    lane = mine[mine["role"] == pace]
    its = lane.groupby(["run", "cta"]).agg(pace_begin=("begin_ns", "min"), pace_end=("end_ns", "max"))
    ctas = ctas.join(its)
    ctas["pace_begin"] = ctas["pace_begin"].fillna(ctas["end"])
    ctas["pace_end"] = ctas["pace_end"].fillna(ctas["end"])
    sums = pd.DataFrame(
        {
            "fill": (ctas["pace_begin"] - ctas["begin"]).groupby(level="run").sum(),
            "drain": (ctas["end"] - ctas["pace_end"]).groupby(level="run").sum(),
            "between": (ctas["pace_end"] - ctas["pace_begin"]).groupby(level="run").sum(),
        }
    )
    roles = overlap.roles(mine)
    roles = roles[roles["role"] == pace].set_index("run")
    sums["processing"] = roles["processing_ns"]
    sums["wait_upstream"] = roles["wait_ready_ns"] + roles["wait_other_ns"]
    sums["wait_consumer"] = roles["wait_free_ns"]
    sums["unowned"] = sums["between"] - sums[["processing", "wait_upstream", "wait_consumer"]].sum(axis=1)
    total = ctas["end"].groupby(level="run").max() - first
    covered = _covered(ctas)
    # CTAs that run side by side on the SM are each an account of the same time.
    beside = (ctas["end"] - ctas["begin"]).groupby(level="run").sum() / covered
    out = sums[[s for s in SHARES if s != "idle"]].div(beside * total, axis=0)
    out["idle"] = 1 - covered / total
    out.insert(0, "total_ns", total)
    out.insert(0, "sm", mine.groupby("run")["sm"].first())
    return out.reset_index()


def tail_parts(per_sm: pd.DataFrame) -> pd.DataFrame:
    """The tail of each run in two parts, as shares of the last finish: run, tail, by_rows, spread.

    per_sm: `tails.per_sm`.  tail = last minus mean finish; `by_rows` = mean finish of the SMs with the most rows minus mean
    finish, which is what a row law can explain; `spread` = last finish minus that of the SMs with the most rows.
    """
    finish = per_sm.groupby("run")["finish_ns"]
    most = per_sm["rows"] == per_sm.groupby("run")["rows"].transform("max")
    busiest = per_sm[most].groupby("run")["finish_ns"].mean()
    last, mean = finish.max(), finish.mean()
    out = pd.DataFrame({"tail": last - mean, "by_rows": busiest - mean, "spread": last - busiest})
    return out.div(last, axis=0).assign(finish_ns=last).reset_index()


def _covered(ctas: pd.DataFrame) -> pd.Series:
    """Per run: ns in which at least one CTA is on the SM."""
    runs = ctas.index.get_level_values("run").to_numpy()
    known, group = np.unique(runs, return_inverse=True)
    begin, end = (ctas[c].to_numpy(np.int64) for c in ("begin", "end"))
    order = np.lexsort((begin, group))
    sizes: NDArray[np.int64] = union_ns(group[order], begin[order], end[order], len(known))
    return pd.Series(sizes, index=known)
