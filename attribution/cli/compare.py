"""`attr compare A B`: do two recordings of alike machines say the same of each arm?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attribution.cli.options import Json, open_each
from attribution.cli.output import print_json, print_rows
from attribution.tables import records


def compare(
    first: Annotated[Path, typer.Argument(help="A recording.")],
    second: Annotated[Path, typer.Argument(help="Another one.")],
    stage: Annotated[str | None, typer.Option("--stage", help="Stage; each variant's own when not given.")] = None,
    json: Json = False,
) -> None:
    """Compare the paired ratios of two recordings; times of two recordings are not paired and are not compared.

    Recordings that differ in machine, driver, compiler, way of measuring or kernel source are refused, naming both values;
    so are arms that differ in flags, knobs, machine code or inputs.
    """
    from attribution.claim.compare import compare_answers

    one, other = open_each([first, second])
    frame = compare_answers(one, other, stage)
    rows = records(frame)
    if json:
        print_json(rows)
        return
    print_rows(rows)
