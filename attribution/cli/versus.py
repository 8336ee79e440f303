"""`attr versus RECORDING ARM...`: arms side by side, the ladders below them, and what fusing can save at most."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attribution.cli.options import Json, Point, Scope, open_point
from attribution.cli.output import print_json, print_rows
from attribution.errors import InputError
from attribution.show.cells import DASH, interval_ms, interval_share, text


def versus(
    path: Annotated[Path, typer.Argument(help="A recording.")],
    arms: Annotated[list[str], typer.Argument(help="Arms to put side by side.")],
    unfused: Annotated[
        str | None, typer.Option("--unfused", help="Arm that writes the scores: bounds what fusing can save.")
    ] = None,
    scope: Scope = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw into this .svg or .png file.")] = None,
    point: Point = None,
    json: Json = False,
) -> None:
    """Show arms side by side: times, ladders, and what the profiler counted of them.

    The figure also has every intervention on the last of them that is a base.
    """
    from attribution.analyze.interventions import choose_scope
    from attribution.analyze.versus import UNITS, fusing_bound, side_by_side
    from attribution.claim import scope_sentence
    from attribution.show.versus import draw, ladders

    recording = open_point(path, point)
    if len(set(arms)) != len(arms):
        raise InputError(f"arms {', '.join(arms)}: each may be named once")
    sides = side_by_side(recording, arms, label := choose_scope(recording.table("times"), scope))
    steps = ladders(recording, arms, label)
    bound = fusing_bound(recording, unfused, label) if unfused else None
    if plot is not None:
        draw(recording, sides, steps, label, plot)
    if json:
        print_json({"scope": label, "arms": sides, "ladders": steps, "bound": vars(bound) if bound else None})
        return
    heads = {"quantity": f"stage main, {label}", **{s["arm"]: s["arm"] for s in sides}}
    print_rows([_row(name, sides, unit) for name, unit in [("main", "ms"), ("operator", "ms")]], heads)
    print()
    heads["quantity"] = "stage main, ncu"
    print_rows([_row(name, sides, unit) for name, unit in UNITS.items()], heads)
    for base, rungs in steps.items():
        print(f"\nLadder below {base}: " + ", ".join(f"{r['adds']} {interval_ms(r, 'step')} ms" for r in rungs))
    if bound:
        share = interval_share(bound.share, bound.share_low, bound.share_high)
        print(
            f"\nFusing saves at most the score matrix: {bound.arm} wrote {bound.written_byte / 1e9:.3f} GB; writing and reading "
            f"that at the {bound.copy_byte_per_s / 1e12:.2f} TB/s of a copy takes {bound.bound_ns / 1e6:.3f} ms, {share} of it"
        )
    print(f"\n{scope_sentence(recording, label)}")
    if plot is not None:
        print(f"figure: {plot}")


def _row(name: str, sides: list[dict[str, Any]], unit: str) -> dict[str, str]:
    return {"quantity": f"{name}, {unit}" if unit == "ms" else name} | {s["arm"]: _cell(s, name, unit) for s in sides}


def _cell(side: dict[str, Any], name: str, unit: str) -> str:
    if unit == "ms":
        return interval_ms(side, name)
    value = side[name]
    if value != value:
        return DASH
    if unit == "share":
        return f"{100 * value:.1f} %"
    return f"{value / 1e12:.2f} TB/s" if unit == "byte/s" else f"{text(value)}"
