"""`attr show PATH`: what a recording or a profiler's file holds, as tables and as figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attribution.analyze.verdict import MARGIN
from attribution.cli.answers import answer_rows, print_answers
from attribution.cli.options import Json, Point, open_named
from attribution.cli.output import print_json, print_rows
from attribution.tables import records

if TYPE_CHECKING:
    from attribution.analyze.traced import Trace


def show(
    path: Annotated[
        Path, typer.Argument(help="A recording (yours, or the name of a shipped one), or a profiler's file.")
    ],
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw into this .svg or .png file.")] = None,
    arm: Annotated[
        str | None,
        typer.Option("--arm", help="Arm whose SMs and timeline are shown; the base when not given."),
    ] = None,
    stage: Annotated[str | None, typer.Option("--stage", help="Stage; each variant's own when not given.")] = None,
    margin: Annotated[
        str,
        typer.Option("--margin", help="0.1%: ratios that close to 1 are `same`; smaller effects than 1 % need less."),
    ] = f"{MARGIN:.0%}",
    point: Point = None,
    json: Json = False,
) -> None:
    """Show what a recording answers, its per-SM rows and its roles; or what a profiler's file holds."""

    if path.is_file():
        from attribution.cli.ingest import show_file

        show_file(path, plot, json)
        return
    recording = open_named(path)
    if recording.manifest["kind"] != "run":
        from attribution.cli.ingest import show_ingested

        show_ingested(recording, plot, json)
        return
    recording.verify()
    from attribution.analyze import point as points
    from attribution.analyze.traced import traced
    from attribution.measure.stopping import share

    recording = points.at(recording, point) if point else recording
    rows = answer_rows(recording, stage, share("--margin", margin))
    trace = traced(recording, arm)
    if plot is not None:
        from attribution.show.plot import draw_recording

        draw_recording(rows, trace, plot)
    if json:
        tables = {"sms": trace.sm_rows(), "roles": trace.role_rows()} if trace else {}
        print_json({"manifest": recording.manifest, "answers": rows, **tables})
        return
    print(recording)
    print_answers(recording, rows)
    if trace:
        _print_trace(trace)
    if plot is not None:
        print(f"figure: {plot}")


def _print_trace(trace: Trace) -> None:
    sms = [{**row, "busy_ns": row["busy_ns"] / 1e6, "finish_ns": row["finish_ns"] / 1e6} for row in trace.sm_rows()]
    if trace.left_out:
        print(f"\n{trace.left_out}")
    else:
        print(f"\nSMs of {trace.arm}, run {trace.run}")
        print_rows(
            sms,
            {
                "sm": "SM",
                "ctas": "CTAs",
                "rows": "rows",
                "busy_ns": "busy, ms",
                "finish_ns": "finish, ms",
            },
        )
    print(f"\nRoles of {trace.arm}, run {trace.run}: sums over its CTAs, ms")
    columns = {k: k.removesuffix("_ns").replace("_", " ") for k in trace.role_rows()[0]}
    rows = [{k: v / 1e6 if k.endswith("_ns") else v for k, v in row.items()} for row in trace.role_rows()]
    print_rows(rows, columns)
    if len(trace.unpaired):
        print(f"{len(trace.unpaired)} events have no partner and are not in the sums:")
        print_rows(records(trace.unpaired.head(8)))
