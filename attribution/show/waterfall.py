"""A waterfall of the main kernel: floor, terms, their sum, the separate total and the remainder with its bound.

In: the frame of `ledger.main_account`, and the witnesses' verdicts.  Out: a matplotlib Figure or a file.
Misuse: bars of terms whose verdict is not `measured` are hatched; a figure without its hatching is another claim.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from attribution.show.plot import COLOURS, GREY, save

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

KINDS = {"floor": GREY, "term": COLOURS[0], "sum": COLOURS[7], "total": COLOURS[7], "remainder": COLOURS[1]}


def bars(account: pd.DataFrame) -> pd.DataFrame:
    """`account` with `bottom_ns` and `height_ns` of each bar: terms stand on each other, sums and totals on 0."""
    out = account[account["time_ns"].notna()].reset_index(drop=True)
    stacked = out["kind"].isin(["floor", "term"])
    top = out["time_ns"].where(stacked, 0.0).cumsum()
    bottom = (top - out["time_ns"]).where(stacked, 0.0)
    end = float(top.iloc[-1]) if len(top) else 0.0
    out["bottom_ns"] = bottom.where(out["kind"] != "remainder", end)
    out["height_ns"] = out["time_ns"]
    return out


def waterfall(account: pd.DataFrame, title: str = "") -> Figure:
    """The figure of one account; error bars are 95 % intervals, hatched bars are not (yet) measured terms."""
    from matplotlib.figure import Figure

    table = bars(account)
    figure = Figure(figsize=(1.0 + 0.95 * len(table), 4.4), layout="constrained")
    axes = figure.subplots()
    place = np.arange(len(table))
    for i, (_, row) in enumerate(table.iterrows()):
        firm = row["verdict"] in ("measured", "arithmetic", "closes", "")
        axes.bar(
            [i], [row["height_ns"] / 1e6], bottom=[row["bottom_ns"] / 1e6], width=0.7, color=KINDS[row["kind"]],
            alpha=1.0 if firm else 0.45, hatch=None if firm else "//", edgecolor="white",
        )  # fmt: skip
        top = row["bottom_ns"] + max(row["height_ns"], 0.0)
        above = row["high_ns"] - row["time_ns"] if row["high_ns"] == row["high_ns"] else 0.0
        axes.annotate(
            f"{row['time_ns'] / 1e6:.3g}",
            (i, (top + above) / 1e6),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    known = table["low_ns"].notna().to_numpy()
    ends = (table["bottom_ns"] + table["height_ns"]).to_numpy() / 1e6
    half = (
        (table["time_ns"] - table["low_ns"]).to_numpy() / 1e6,
        (table["high_ns"] - table["time_ns"]).to_numpy() / 1e6,
    )
    axes.errorbar(
        place[known], ends[known], yerr=(half[0][known], half[1][known]), fmt="none", ecolor="black", capsize=3
    )
    axes.set_xticks(place, [_wrapped(n) for n in table["item"]], fontsize=8)
    axes.set_ylabel(f"ms, {account['scope'].iloc[0]}")
    axes.set_title(title or "Main kernel: floor, steps, and what has no owner (95 %)", fontsize=10)
    axes.margins(y=0.12)
    return figure


def draw_waterfall(account: pd.DataFrame, path: Path, title: str = "") -> None:
    """Write the figure.  Raises InputError for another ending, MeasureError when it cannot be written."""
    save(waterfall(account, title), path)


def _wrapped(text: str) -> str:
    return text.replace(" (", "\n(").replace(" above ", "\nabove ").replace(" of ", "\nof ")
