"""`attr show PATH`: what a recording or a profiler's file holds, as tables and as figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attribution.cli.answers import answer_rows, print_answers
from attribution.cli.options import Json
from attribution.cli.output import print_json, print_rows

if TYPE_CHECKING:
    from attribution.recording import Recording


def show(
    path: Annotated[Path, typer.Argument(help="A recording, or a profiler's file.")],
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw into this .svg or .png file.")] = None,
    arm: Annotated[str | None, typer.Option("--arm", help="Arm whose SMs and timeline are shown; the base when not given.")] = None,
    stage: Annotated[str | None, typer.Option("--stage", help="Stage; each variant's own when not given.")] = None,
    json: Json = False,
) -> None:
    """Show what a recording answers, its per-SM rows and its roles; or what a profiler's file holds."""
    from attribution.recording import open_recording

    if path.is_file():
        from attribution.cli.ingest import show_file

        show_file(path, plot, json)
        return
    recording = open_recording(path)
    if recording.manifest["kind"] != "run":
        from attribution.cli.ingest import show_ingested

        show_ingested(recording, plot, json)
        return
    recording.verify()
    rows = answer_rows(recording, stage)
    from attribution.claim import traced

    trace = traced(recording, arm)
    per_sm, roles = trace.sm_rows(), trace.role_rows()
    if plot is not None:
        from attribution.show.plot import draw_recording

        draw_recording(rows, trace, plot)
    if json:
        print_json({"manifest": recording.manifest, "answers": rows, "sms": per_sm, "roles": roles})
        return
    _print(recording, rows, trace.arm, per_sm, roles)
    if plot is not None:
        print(f"figure: {plot}")


def _print(
    recording: Recording, rows: list[dict[str, Any]], arm: str, per_sm: list[dict[str, Any]], roles: list[dict[str, Any]]
) -> None:
    print(recording)
    print_answers(recording, rows)
    if per_sm:
        print(f"\nSMs of {arm}, first traced run")
        print_rows(per_sm)
        print(f"\nRoles of {arm}")
        print_rows(roles)
