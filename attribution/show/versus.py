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
from attribution.plan import NULL
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
    found = interventions(recording, base, scope)
    heights = [0.5 * len(sides) + 0.8, 0.32 * len(found) + 0.8][: 2 if found else 1]
    figure = Figure(figsize=(10, sum(heights) + 0.5), layout="constrained")
    panels = figure.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    draw_ladders(panels[0], sides, steps, scope)
    if found:
        draw_interventions(panels[1], found, str(base))
    save(figure, path)


def interventions(recording: Recording, base: str | None, scope: str | None) -> list[dict[str, Any]]:
    """Answers of the arms of `base`, then of those whose base is one of these, as a rung of a ladder is."""
    every = [r for r in records(answers(recording, scope=scope)) if r["pairs"]]
    found = [r for r in every if r["base"] == base and r["arm"] != NULL]
    arms = {r["arm"] for r in found}
    # The null arm answers once for every stage; a reader needs one of them, that of most interventions if there is it.
    nulls = sorted((r for r in every if r["base"] == base and r["arm"] == NULL), key=lambda r: r["stage"] != "main")
    return nulls[:1] + found + [r for r in every if r["base"] in arms and r["arm"] != NULL]


def draw_ladders(axes: Axes, sides: Sequence[Mapping[str, Any]], steps: Steps, scope: str | None) -> None:
    """One bar an arm: main with the rungs of its ladder stacked (grey without rungs), and pale the other stages."""
    longest = max(float(s["operator_ns"]) for s in sides) / 1e6
    for place, side in enumerate(sides):
        main, whole, high = (side[f"{key}_ns"] / 1e6 for key in ("main", "operator", "operator_high"))
        axes.barh([place], [whole], color=GREY, alpha=0.45)
        rungs = steps.get(side["arm"], ())
        if not rungs:
            axes.barh([place], [main], color=GREY)
        for i, rung in enumerate(rungs):
            begin, width = (rung["time_ns"] - rung["step_ns"]) / 1e6, rung["step_ns"] / 1e6
            firm = rung["verdict"] == "measured"
            bar = axes.barh([place], [width], left=[begin], color=COLOURS[i], hatch=None if firm else "//")
            bar.patches[0].set_alpha(1.0 if firm else 0.4)
            if width > 0.08 * longest:
                words = f"{rung['adds'].removeprefix('+ ')}\n{width:.2f}"
                colour = "white" if firm else "black"
                axes.text(begin + width / 2, place, words, ha="center", va="center", fontsize=7, color=colour)
        if high == high:  # one round has no interval
            axes.errorbar([whole], [place], xerr=[high - whole], color="black", capsize=2, linewidth=1)
        axes.text((high if high == high else whole) + 0.01 * longest, place, f"{whole:.3f}", va="center", fontsize=8)
    axes.set_yticks(range(len(sides)), [str(s["arm"]) for s in sides])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * longest)
    axes.set_xlabel(
        f"ms ({scope}): the operator; in colour what each rung adds to its main stage, pale the other stages"
    )


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
    names = [_named(r, base) for r in found]
    axes.set_yticks(range(len(found)), names, fontsize=8)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlabel(
        f"time against {base}, or against what stands behind the slash: 95 % interval over what was expected (band)"
    )


def _named(row: Mapping[str, Any], base: str) -> str:
    """The arm, with its base and stage where they are not the usual ones."""
    against = f" / {row['base']}" if row["base"] != base else ""
    return f"{row['arm']}{against}" + (f" ({row['stage']})" if row["stage"] != "main" else "")
