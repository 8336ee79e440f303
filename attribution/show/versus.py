"""The figure of arms side by side: their ladders as stacked bars, and every intervention on the last that is a base.

In: a recording and what `analyze.versus` says of the arms.  Out: ladders by base; an .svg or .png file, written whole.
Misuse: a bar's part is a step, what disappears when the mechanism is taken away; it is not the mechanism's cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribution.analyze.ladder import ladder
from attribution.claim import answers
from attribution.errors import InputError
from attribution.recording import Recording
from attribution.show.plot import COLOURS, GREY, save
from attribution.tables import records

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Steps = Mapping[str, Sequence[Mapping[str, Any]]]


def ladders(recording: Recording, arms: Sequence[str], scope: str | None) -> dict[str, list[dict[str, Any]]]:
    """The ladder of every arm that is a base with rungs below it."""
    tables = {name: recording.table(name) for name in ("runs", "times", "counters", "checks")}
    tick, out = float(recording.manifest["machine"]["tick_ns"]), {}
    for arm in arms:
        try:
            out[arm] = records(ladder(tables, recording.manifest["variants"], arm, "main", scope, tick))
        except InputError:
            continue  # An arm without rungs is one bar.
    return out


def draw(recording: Recording, sides: Sequence[Mapping[str, Any]], steps: Steps, scope: str | None, path: Path) -> None:
    """Write the figure.  Raises InputError for another ending, MeasureError when it cannot be written."""
    from matplotlib.figure import Figure

    base = next((s["arm"] for s in reversed(sides) if s["question"] == s["arm"]), None)
    found = [r for r in records(answers(recording, scope=scope)) if r["base"] == base and r["pairs"]]
    heights = [0.55 * len(sides) + 1.0, 0.42 * len(found) + 1.0][: 2 if found else 1]
    figure = Figure(figsize=(10, sum(heights) + 0.5), layout="constrained")
    panels = figure.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    draw_ladders(panels[0], sides, steps, scope)
    if found:
        draw_interventions(panels[1], found, str(base))
    save(figure, path)


def draw_ladders(axes: Axes, sides: Sequence[Mapping[str, Any]], steps: Steps, scope: str | None) -> None:
    """One bar an arm: the rungs of its ladder stacked, or its time whole and grey."""
    for place, side in enumerate(sides):
        rungs = steps.get(side["arm"], ())
        if not rungs:
            axes.barh([place], [side["main_ns"] / 1e6], color=GREY)
        for i, rung in enumerate(rungs):
            begin, width = (rung["time_ns"] - rung["step_ns"]) / 1e6, rung["step_ns"] / 1e6
            firm = rung["verdict"] == "measured"
            axes.barh(
                [place],
                [width],
                left=[begin],
                color=COLOURS[i],
                alpha=1.0 if firm else 0.4,
                hatch=None if firm else "//",
            )
            text = f"{rung['adds'].removeprefix('+ ')}\n{width:.2f}"
            fits = width > 0.1 * max(float(s["main_ns"]) for s in sides) / 1e6
            if fits:
                axes.annotate(text, (begin + width / 2, place), ha="center", va="center", fontsize=7, color="white")
        end, half = side["main_ns"] / 1e6, (side["main_high_ns"] - side["main_ns"]) / 1e6
        axes.errorbar([end], [place], xerr=[half], color="black", capsize=2, linewidth=1)
        axes.annotate(
            f"{end:.3f} ms",
            (end + max(half, 0.0), place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(sides)), [str(s["arm"]) for s in sides])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12 * max(float(s["main_high_ns"]) for s in sides) / 1e6)
    axes.set_xlabel(f"ms of stage main ({scope}): what each rung adds")


def draw_interventions(axes: Axes, found: Sequence[Mapping[str, Any]], base: str) -> None:
    """Ratios of time against the base with intervals, over what was expected, each with its verdicts."""
    for place, row in enumerate(found):
        expected = (row["expected_ratio_low"], row["expected_ratio_high"])
        if expected[0] == expected[0]:
            axes.barh([place], [expected[1] - expected[0]], left=[expected[0]], height=0.6, color=COLOURS[6], alpha=0.5)
        low, mid, high = (row[f"time_ratio{end}"] for end in ("_low", "", "_high"))
        colour = {"faster": COLOURS[2], "slower": COLOURS[1]}.get(row["verdict"], GREY)
        axes.plot([low, high], [place, place], color=colour, linewidth=3, solid_capstyle="butt")
        axes.plot([mid], [place], "o", color=colour, markersize=5)
        words = f"{mid:.3f} {row['verdict']}" + (f", {row['expectation']}" if row["expectation"] else "")
        axes.annotate(words, (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=8)
    axes.axvline(1, color="black", linewidth=0.8)
    names = [f"{r['arm']} ({r['stage']})" if r["stage"] != "main" else str(r["arm"]) for r in found]
    axes.set_yticks(range(len(found)), names, fontsize=8)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlabel(f"time against {base}: 95 % interval over what was expected before measuring (band)")
