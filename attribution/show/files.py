"""Figures of a profiler's file: opcode mix, stall reasons, source lines of one launch; a timeline of kernels.

In: the tables of `ingest`.  Out: a matplotlib Figure, or an .svg or .png file, written whole.
Misuse: the bars are of one launch, whose kernel and ordinal the title names: many reports profiled another kernel than
their reader believes.  A stall reason is where warps stood when sampled, not what removing it would save.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attribution.errors import DataError
from attribution.show.plot import COLOURS, GREY, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BARS = 12
_OPCODES = "sass__inst_executed_per_opcode"
_STALL = "smsp__pcsamp_warps_issue_stalled_"
_MAX_DRAWN = 5000
Tables = Mapping[str, pd.DataFrame]


def draw_file(tables: Tables, path: Path) -> None:
    """Write the figure of a file.  Raises DataError when it holds nothing that can be drawn."""
    save(file_figure(tables), path)


def file_figure(tables: Tables) -> Figure:
    """All of opcodes, stalls, source lines (of the first launch of the first file) and timeline that the tables have."""
    from matplotlib.figure import Figure

    panels: list[Callable[[Axes], None]] = []
    for rows, title in (
        (opcode_shares(tables), "Warp instructions by opcode"),
        (stall_shares(tables), "Warp samples by stall reason"),
        (line_shares(tables), "Warp instructions by source line"),
    ):
        if len(rows):
            panels.append(lambda axes, rows=rows, title=title: draw_bars(axes, rows, title))  # type: ignore[misc]
    if "kernels" in tables and len(tables["kernels"]):
        panels.append(lambda axes: draw_kernels(axes, tables["kernels"]))
    if not panels:
        held = ", ".join(f"{len(frame)} {name}" for name, frame in tables.items()) or "no rows"
        raise DataError(f"nothing to draw: the file has {held}; drawn are opcodes, stalls, source lines and kernels")
    figure = Figure(figsize=(9, 3.2 * len(panels)), layout="constrained")
    for axes, draw in zip(np.atleast_1d(figure.subplots(len(panels), 1)), panels, strict=True):
        draw(axes)
    return figure


def opcode_shares(tables: Tables, launch: int = 0) -> pd.DataFrame:
    """Columns `name`, `count`, `share` of the launch's instructions by opcode, largest first."""
    rows = _of(tables, "opcodes", launch)
    rows = rows[rows["metric"] == _OPCODES]
    return _shares(rows["opcode"].astype(str), rows["value"], rows)


def stall_shares(tables: Tables, launch: int = 0) -> pd.DataFrame:
    """The same for warp-state samples by reason; those that issued are `selected`."""
    rows = _of(tables, "metrics", launch)
    name = rows["metric"].astype(str)
    keep = name.str.startswith(_STALL) & ~name.str.endswith("_not_issued") & (rows["instance"] == "")
    rows = rows[keep.to_numpy() & (rows["state"] == "value").to_numpy()]
    return _shares(rows["metric"].astype(str).str.removeprefix(_STALL), rows["value"], rows)


def line_shares(tables: Tables, launch: int = 0) -> pd.DataFrame:
    """The same for source lines; empty where the report has no line information."""
    rows = _of(tables, "pcs", launch)
    rows = rows[((rows["metric"] == "inst_executed") & (rows["source_line"] >= 0)).to_numpy()]
    lines = rows["source_file"].astype(str).str.split("/").str[-1] + ":" + rows["source_line"].astype(str)
    return _shares(lines, rows["value"], rows)


def _of(tables: Tables, name: str, launch: int) -> pd.DataFrame:
    """Rows of one launch of the first file."""
    from attribution.ingest import frames

    table = tables[name] if name in tables else frames.empty(name)
    if not len(table):
        return table
    first = str(tables["files"]["file"].iloc[0]) if "files" in tables else str(table["file"].iloc[0])
    return table[((table["launch"] == launch) & (table["file"] == first)).to_numpy()]


def _shares(names: pd.Series, values: pd.Series, rows: pd.DataFrame) -> pd.DataFrame:
    kernel = str(rows["kernel_name"].iloc[0]) if len(rows) else ""
    launch = int(rows["launch"].iloc[0]) if len(rows) else -1
    count = values.groupby(names.to_numpy()).sum().sort_values(ascending=False, kind="stable")
    total = count.sum()
    share = count / total if total else count * np.nan
    out = pd.DataFrame({"name": count.index.astype(str), "count": count.to_numpy(), "share": share.to_numpy()})
    out.attrs = {"kernel": kernel, "launch": launch, "total": float(total)}
    return out


def draw_bars(axes: Axes, rows: pd.DataFrame, title: str) -> None:
    """Bars of shares, the largest on top; what is not drawn is one grey bar with its number."""
    shown, rest = rows.head(_BARS), rows.iloc[_BARS:]
    names, shares = list(shown["name"]), [100 * float(s) for s in shown["share"]]
    colours: list[str] = [COLOURS[0]] * len(names)
    if len(rest):
        names.append(f"{len(rest)} others")
        shares.append(100 * float(rest["share"].sum()))
        colours.append(GREY)
    places = np.arange(len(names))
    axes.barh(places, shares, color=colours)
    axes.set_yticks(places, [_plain(n) for n in names], fontsize=8)
    axes.invert_yaxis()
    about = rows.attrs
    axes.set_title(_plain(f"{title}: {about['kernel']}, launch {about['launch']}"), fontsize=9, loc="left")
    axes.set_xlabel(f"share of {about['total']:,.0f}, %")


def draw_kernels(axes: Axes, kernels: pd.DataFrame) -> None:
    """One lane a stream; the names with most time have colours, the others are grey."""
    shown = kernels.head(_MAX_DRAWN)
    origin = int(shown["begin_ns"].min())
    totals = shown.groupby("kernel_name", observed=True)["dur_ns"].sum().sort_values(ascending=False)
    colour = {str(name): COLOURS[i] for i, name in enumerate(totals.index[: len(COLOURS) - 1])}
    lanes = {key: i for i, key in enumerate(sorted(set(zip(shown["device"], shown["stream"], strict=True))))}
    names = shown["kernel_name"].astype(str).to_numpy()
    for (device, stream), lane in lanes.items():
        mine = ((shown["device"] == device) & (shown["stream"] == stream)).to_numpy()
        spans = list(zip((shown["begin_ns"][mine] - origin) / 1e6, shown["dur_ns"][mine] / 1e6, strict=True))
        axes.broken_barh(spans, (lane - 0.4, 0.8), facecolors=[colour.get(n, GREY) for n in names[mine]])
    axes.set_yticks(list(lanes.values()), [f"device {d} stream {s}" for d, s in lanes], fontsize=8)
    for name, shade in colour.items():
        axes.plot([], [], color=shade, linewidth=5, label=_plain(name[:70]))
    axes.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False)
    more = f", the first {_MAX_DRAWN:,} of {len(kernels):,}" if len(kernels) > _MAX_DRAWN else ""
    axes.set_title(f"Kernels{more}", fontsize=9, loc="left")
    axes.set_xlabel("ms from the first kernel")


def _plain(text: Any) -> str:
    """Names hold dollar signs, which matplotlib would read as formulas."""
    return str(text).replace("$", r"\$")
