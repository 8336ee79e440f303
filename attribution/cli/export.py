"""`attr export`: a recording's trace for other programs' viewers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attribution.cli.options import Json, open_named
from attribution.cli.output import print_json
from attribution.errors import InputError


def export(
    recording: Annotated[Path, typer.Argument(help="A recording.")],
    perfetto: Annotated[Path, typer.Option("--perfetto", help="Write a Perfetto trace here.")],
    arm: Annotated[str | None, typer.Option("--arm", help="Arm to export; the base when not given.")] = None,
    run: Annotated[int | None, typer.Option("--run", help="Or the run with this number.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file that is there.")] = False,
    json: Json = False,
) -> None:
    """Write a Perfetto trace in which no slice is lost: they are counted before writing and after reading back."""
    from attribution.analyze.traced import traced
    from attribution.show.perfetto import write_perfetto

    if perfetto.exists() and not overwrite:
        raise InputError(f"{perfetto} exists: choose another file, or add --overwrite")
    trace = traced(open_named(recording), arm, run)
    if trace is None:
        raise InputError(f"{recording} has no trace to export: measure with --flag TRACE=1")
    slices = write_perfetto(trace.spans, perfetto)
    facts = {"file": str(perfetto), "arm": trace.arm, "run": trace.run, "slices": slices}
    print_json(facts) if json else print(f"{perfetto}: {slices} slices of {trace.arm}, run {trace.run}")
