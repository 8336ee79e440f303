"""`attr ladder PATH`: what each rung adds, with intervals, and how declared factor pairs interact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attribution.cli.options import Json, Point, Scope, open_point
from attribution.cli.output import print_json, print_rows
from attribution.cli.timed import check_timed
from attribution.show.cells import interval_ms
from attribution.tables import records


def ladder(
    path: Annotated[Path, typer.Argument(help="A recording.")],
    base: Annotated[
        str | None, typer.Option("--base", help="Top rung; the first question's base when not given.")
    ] = None,
    stage: Annotated[str, typer.Option("--stage", help="Stage that is compared.")] = "main",
    scope: Scope = None,
    point: Point = None,
    json: Json = False,
) -> None:
    """Show the cumulative rungs below a base: what each adds, paired round by round, and the interactions.

    A step whose rungs did unequal work that they should share is void.
    """
    from attribution.analyze import interactions as terms
    from attribution.analyze import ladder as rungs
    from attribution.analyze.interventions import check_known, choose_scope
    from attribution.claim import scope_sentence

    recording = open_point(path, point)
    top = check_known(recording, base)
    check_timed(recording, stage)
    tables = {n: recording.table(n) for n in ("runs", "times", "counters", "checks")}
    variants, tick = recording.manifest["variants"], float(recording.manifest["machine"]["tick_ns"])
    label = choose_scope(tables["times"], scope, stage)
    steps = records(rungs.ladder(tables, variants, top, stage, label, tick))
    pairs = records(terms.interactions(tables, variants, stage, label, tick))
    if json:
        print_json({"base": top, "steps": steps, "interactions": pairs})
        return
    print(f"Ladder below {top}, stage {stage}, {steps[0]['scope']}, {steps[0]['rounds']} paired rounds\n")
    shown = [
        {
            "rung": s["rung"], "adds": s["adds"], "ms": f"{s['time_ns'] / 1e6:.3f}", "step": interval_ms(s, "step"),
            "share": f"{s['step_share']:.1%}", "verdict": s["verdict"], "reason": s["reason"],
        }
        for s in steps
    ]  # fmt: skip
    print_rows(
        shown,
        {
            "rung": "rung",
            "adds": "adds",
            "ms": "ms",
            "step": "step, ms [95 %]",
            "share": f"of {top}",
            "verdict": "verdict",
            "reason": "reason",
        },
    )
    for pair in pairs:
        print(f"\n{pair['factors']} ({pair['variant']}): {pair['verdict']}; {pair['reason']}")
        if pair["rounds"]:
            term = interval_ms({"t_ns": pair["term_ns"], "t_low_ns": pair["low_ns"], "t_high_ns": pair["high_ns"]}, "t")
            alone, changed = pair["alone_ns"] / 1e6, pair["changed_ns"] / 1e6
            print(
                f"    {pair['off']}: {alone:.3f} ms alone, {changed:.3f} ms with {pair['variant']}; interaction {term} ms"
            )
    print(f"\n{scope_sentence(recording)}")
