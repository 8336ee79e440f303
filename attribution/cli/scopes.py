"""`attr scopes RECORDING`: one arm under every instrument; two of them are never subtracted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attribution.cli.options import Json, Point, open_point
from attribution.cli.output import print_json, print_rows
from attribution.tables import records

HEADS = {
    "scope": "scope",
    "stage": "stage",
    "time_ns": "median, ms",
    "low_ns": "5 %",
    "high_ns": "95 %",
    "samples": "samples",
    "includes": "what a value includes",
}


def scopes(
    path: Annotated[Path, typer.Argument(help="A recording.")],
    arm: Annotated[str | None, typer.Option("--arm", help="Arm; the first question's base when not given.")] = None,
    minus: Annotated[
        list[str] | None, typer.Option("--minus", help="Given twice: ask for the first scope minus the second.")
    ] = None,
    stage: Annotated[
        str | None, typer.Option("--stage", help="Only this stage; of the difference main when not given.")
    ] = None,
    point: Point = None,
    json: Json = False,
) -> None:
    """What each instrument includes and reads of the same arm.  A difference across scopes is refused."""
    from attribution.analyze.by_scope import by_scope, difference
    from attribution.claim import scope_sentence
    from attribution.claim.void import void_reasons
    from attribution.errors import InputError

    recording = open_point(path, point)
    if recording.manifest["kind"] != "run":
        raise InputError(f"{path} holds ingested files, not measured arms: use `attr show`")
    found = by_scope(recording, arm or recording.manifest["plan"]["questions"][0]["base"])
    if found.empty:
        raise InputError(f"{recording.path.name} has no time of stage operator or main: there is no scope to show")
    if stage is not None:
        if stage not in (known := list(found["stage"].unique())):
            raise InputError(f"--stage {stage}: {recording.path.name} has here {', '.join(known)}")
        found = found[found["stage"] == stage]
    if minus:
        if len(minus) != 2:
            raise InputError(f"--minus {' '.join(minus)}: give it twice, for the two scopes")
        print(difference(found, minus[0], minus[1], stage or "main"))
        return
    void = found["scope"].map(lambda scope: "; ".join(void_reasons(recording, str(scope).split("/")[0])))
    if json:
        print_json({"scopes": records(found.assign(void=void))})
        return
    keys = ("time_ns", "low_ns", "high_ns")
    print_rows([{**r, **{k: round(r[k] / 1e6, 4) for k in keys}} for r in records(found)], HEADS)
    print("Values of two scopes are never subtracted or divided: they do not include the same.")
    print(scope_sentence(recording, *found["scope"].unique()))
