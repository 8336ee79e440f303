"""`attr explain METRIC PATH`: did the numerator move, or only the denominator?  And whose instructions are they?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attribution.cli.accounts import frame_rows
from attribution.cli.options import Json, open_named
from attribution.cli.output import print_json, print_rows
from attribution.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from attribution.recording import Recording


def explain(
    metric: Annotated[str, typer.Argument(help="A ratio metric; with --regions one that is counted per instruction.")],
    path: Annotated[Path, typer.Argument(help="A recording, or ingested files.")],
    second: Annotated[
        Path | None, typer.Argument(help="Another ingested recording to compare with, instead of --arm.")
    ] = None,
    arm: Annotated[str | None, typer.Option("--arm", help="Arm that is compared with the base.")] = None,
    base: Annotated[str | None, typer.Option("--base", help="Base; the first question's when not given.")] = None,
    numerator: Annotated[
        str | None, typer.Option("--numerator", help="Metric above the line, where the name does not say.")
    ] = None,
    denominator: Annotated[str | None, typer.Option("--denominator", help="Metric below the line.")] = None,
    same_work: Annotated[
        bool, typer.Option("--same-work", help="The kernel's work does not depend on data: passes may be mixed.")
    ] = False,
    regions: Annotated[bool, typer.Option("--regions", help="Counts by source file and region instead.")] = False,
    region: Annotated[
        list[str] | None, typer.Option("--region", help="NAME[@ROLE]=FILE[:FIRST[-LAST]]; may be repeated.")
    ] = None,
    kernel_name: Annotated[
        str | None, typer.Option("--kernel-name", help="Kernel, where several were profiled.")
    ] = None,
    json: Json = False,
) -> None:
    """Split the change of a ratio into numerator and denominator, or executed instructions into source regions.

    Ratios are ratios of sums. Counters of different passes on a data-dependent kernel are refused.
    """

    recording = open_named(path)
    if regions or region:
        _regions(recording, metric, region or [], kernel_name, json)
        return
    if (numerator is None) != (denominator is None):
        raise InputError("--numerator and --denominator go together: give both or neither")
    from attribution.analyze.denominators import explain as split

    parts = (numerator, denominator) if numerator is not None and denominator is not None else None
    counters, sides = _sides(recording, second, arm, base, kernel_name)
    found = split(counters, sides, metric, parts, data_dependent=not same_work)
    if json:
        print_json({**vars(found), "sentence": found.sentence})
        return
    print(found.sentence)


def _sides(
    recording: Recording, second: Path | None, arm: str | None, base: str | None, kernel_name: str | None
) -> tuple[pd.DataFrame, tuple[pd.DataFrame, pd.DataFrame]]:
    """All counters, and those of the base and of the arm (or of two ingested recordings).  Raises InputError."""
    import pandas as pd

    if recording.manifest["kind"] != "run":
        if second is None:
            raise InputError("ingested files have no arms: name a second recording to compare with")

        both = [_metrics(r, kernel_name) for r in (recording, open_named(second))]
        return pd.concat(both, ignore_index=True), (both[0], both[1])
    from attribution.analyze.interventions import check_known

    top = check_known(recording, base)
    runs, counters = recording.table("runs"), recording.table("counters")
    if kernel_name is not None:
        counters = counters[counters["kernel_name"] == kernel_name]
    sides = []
    for name in (top, arm):
        mine = runs[(runs["question"] == top) & (runs["arm"] == name)]
        if mine.empty:
            known = sorted(set(runs.loc[runs["question"] == top, "arm"].astype(str)) - {top})
            raise InputError(f"--arm {name}: {recording.path.name} has {', '.join(known)} beside {top}")
        sides.append(counters[counters["run"].isin(mine["run"])])
    return counters, (sides[0], sides[1])


def _metrics(recording: Recording, kernel_name: str | None) -> pd.DataFrame:
    """Table `metrics` of ingested files, of one kernel.  Raises InputError."""
    table = recording.table("metrics")
    names = sorted(set(table["kernel_name"].astype(str)))
    if kernel_name is not None:
        table = table[table["kernel_name"].astype(str) == kernel_name]
    if (len(names) > 1 and kernel_name is None) or table.empty:
        raise InputError(
            f"{recording.path.name}: choose a kernel with --kernel-name; there are: {', '.join(names) or 'none'}"
        )
    return table


def _regions(recording: Recording, metric: str, texts: list[str], kernel_name: str | None, json: bool) -> None:
    from attribution.analyze.regions import by_region, parse

    found = by_region(recording.table("pcs"), [parse(t) for t in texts], metric, kernel_name)
    rows = frame_rows(found)
    if json:
        print_json(rows)
        return
    print(f"{metric} by source region: {found['value'].sum():.6g} {found['unit'].iloc[0]} in all")
    print_rows(
        [{**r, "share": f"{r['share']:.1%}"} for r in rows],
        {k: k for k in ("region", "role", "share", "value", "instructions", "file")},
    )
