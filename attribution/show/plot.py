"""Figures of a recording: what each arm answers, rows and finish per SM, and a timeline of the busiest SM's CTAs.

In: answer rows and a `Trace`.  Out: a matplotlib Figure, or an .svg or .png file, written whole.
Misuse: no pyplot here, so nothing is left open; a figure shows one arm's trace and says which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.analyze.lastsm import on_last_sm
from attribution.errors import InputError
from attribution.show.whole import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from attribution.analyze.traced import Trace

# Okabe and Ito: eight colours that colour-blind readers tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
GREY = "#BBBBBB"
FORMATS = (".svg", ".png")


def draw_recording(answers: Sequence[Mapping[str, Any]], trace: Trace | None, path: Path) -> None:
    """Write the figure of a recording.  Raises InputError for another ending, MeasureError when it cannot be written."""
    save(recording_figure(answers, trace), path)


def recording_figure(answers: Sequence[Mapping[str, Any]], trace: Trace | None) -> Figure:
    """Ratios on top; below, where there is a trace, rows and finish per SM and a timeline."""
    from matplotlib.figure import Figure

    below: list[tuple[float, Callable[[Axes], None]]] = []
    if trace and not trace.left_out:
        below.append((2.4, partial(draw_sms, trace=trace)))
    if trace:
        below.append((2.6, partial(draw_timeline, trace=trace)))
    heights = [0.45 * len(answers) + 1.0, *(height for height, _ in below)]
    figure = Figure(figsize=(9, sum(heights) + 0.6), layout="constrained")
    axes = np.atleast_1d(figure.subplots(len(heights), 1, height_ratios=heights))
    draw_answers(axes[0], answers)
    for under, (_, draw) in zip(axes[1:], below, strict=True):
        draw(under)
    return figure


def draw_answers(axes: Axes, answers: Sequence[Mapping[str, Any]]) -> None:
    """Time ratios with their intervals, the null arm in grey, and the interval that was expected as a band."""
    shown = [a for a in answers if a["pairs"] > 0]
    for place, answer in enumerate(shown):
        null = answer["arm"] == "null"
        low, mid, high = (100 * (answer[k] - 1) for k in ("time_ratio_low", "time_ratio", "time_ratio_high"))
        colour = GREY if null else COLOURS[0]
        expected = [100 * (answer[k] - 1) for k in ("expected_ratio_low", "expected_ratio_high")]
        if expected[0] == expected[0]:
            axes.broken_barh(
                [(expected[0], expected[1] - expected[0])],
                (place - 0.25, 0.5),
                color=COLOURS[6],
                alpha=0.4,
            )
        axes.plot([low, high], [place, place], color=colour, linewidth=3, solid_capstyle="butt")
        axes.plot([mid], [place], marker="o", color=colour)
        axes.annotate(
            f"{mid:+.2f} %  {answer['verdict']}",
            (mid, place),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(shown)), [f"{a['arm']} / {a['base']} ({a['stage']})" for a in shown])
    axes.set_ylim(len(shown) - 0.4, -0.7)
    axes.set_xlabel("change of time against the base, %: 95 % interval (line), expected before measuring (band)")
    axes.margins(x=0.15)


def draw_sms(axes: Axes, trace: Trace) -> None:
    """Rows of output on each SM of the device as bars, finish time as points on an axis of its own."""
    table = trace.per_sm
    axes.bar(table["sm"], table["rows"], color=COLOURS[5], width=0.8)
    axes.set_ylabel("rows of output")
    axes.set_xlabel(f"SM ({trace.sms} of the device)")
    axes.set_title(f"{trace.arm}, run {trace.run}: rows (bars) and finish (points) of every SM", fontsize=9)
    finish = axes.twinx()
    finish.plot(table["sm"], table["finish_ns"] / 1e6, "o", color=COLOURS[1], markersize=4)
    finish.set_ylabel("finish, ms")
    finish.set_ylim(0, 1.1 * table["finish_ns"].max() / 1e6)


def draw_timeline(axes: Axes, trace: Trace, ctas: int = 4) -> None:
    """Work (full colour) and waits (pale) of the roles of the CTAs on the SM that finishes last."""
    spans = on_last_sm(trace.spans)
    chosen = spans.groupby("cta")["begin_ns"].min().sort_values().index[:ctas]
    roles = list(spans["role"].cat.categories)
    lanes = [(cta, role) for cta in chosen for role in roles]
    for place, (cta, role) in enumerate(lanes):
        mine = spans[(spans["cta"] == cta) & (spans["role"] == role)]
        for wait, style in ((False, {"alpha": 1.0}), (True, {"alpha": 1.0, "hatch": "////"})):
            part = mine[mine["wait"] == wait]
            bars = list(zip(part["begin_ns"] / 1e6, (part["end_ns"] - part["begin_ns"]) / 1e6, strict=True))
            face = "white" if wait else COLOURS[roles.index(role)]
            axes.broken_barh(
                bars,
                (place - 0.38, 0.76),
                facecolor=face,
                edgecolor=COLOURS[roles.index(role)],
                linewidth=0.4,
                **style,
            )
    axes.set_yticks(range(len(lanes)), [f"CTA {cta} {role}" for cta, role in lanes], fontsize=8)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.set_xlabel("ms from the start of the stage")
    which = "which finishes last" + (" of those traced" if trace.left_out else "")
    axes.set_title(f"SM {spans['sm'].iloc[0]}, {which}: work (filled) and waits (hatched)", fontsize=9)


def save(figure: Figure, path: Path) -> None:
    """Write the figure whole, by one rename.  Raises InputError, MeasureError."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"--plot {path}: the ending says the format; allowed are {' and '.join(FORMATS)}")
    with whole_file(path) as draft:
        figure.savefig(draft, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
