"""`attr explain METRIC PATH`: did the numerator move, or only the denominator?  And whose instructions are they?"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attribution.cli.options import Json, Point, open_named, open_point
from attribution.cli.output import print_json, print_rows
from attribution.errors import InputError
from attribution.show.cells import harmless
from attribution.tables import records

if TYPE_CHECKING:
    import pandas as pd

    from attribution.recording import Recording


def explain(
    metric: Annotated[str, typer.Argument(help="A ratio metric; with --regions one that is counted per instruction.")],
    path: Annotated[Path, typer.Argument(help="A recording, or ingested files; with --regions a profiler's file too.")],
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
    launch: Annotated[
        list[int] | None,
        typer.Option("--launch", help="Launch of ingested files; given twice, base and then the other."),
    ] = None,
    point: Point = None,
    json: Json = False,
) -> None:
    """Split the change of a ratio into numerator and denominator, or executed instructions into source regions.

    Ratios are ratios of sums. Counters of different passes on a data-dependent kernel are refused.
    """

    if regions or region:
        _regions(_pcs(path, point), metric, region or [], kernel_name, launch or [], json)
        return
    recording = open_point(path, point)
    if (numerator is None) != (denominator is None):
        raise InputError("--numerator and --denominator go together: give both or neither")
    from attribution.analyze.denominators import explain as split

    parts = (numerator, denominator) if numerator is not None and denominator is not None else None
    counters, sides = _sides(recording, second, arm, base, kernel_name, launch or [])
    found = split(counters, sides, metric, parts, data_dependent=not same_work)
    if json:
        print_json({**vars(found), "sentence": found.sentence})
        return
    print(harmless(found.sentence))


def _sides(
    recording: Recording,
    second: Path | None,
    arm: str | None,
    base: str | None,
    kernel_name: str | None,
    launches: list[int],
) -> tuple[pd.DataFrame, tuple[pd.DataFrame, pd.DataFrame]]:
    """All counters, and those of the base and of the arm (or of two ingested recordings).  Raises InputError."""
    import pandas as pd

    if recording.manifest["kind"] != "run":
        if second is None and len(launches) != 2:
            raise InputError("ingested files have no arms: name a second recording, or --launch twice")
        both = [_metrics(r, kernel_name) for r in (recording, open_named(second) if second else recording)]
        if launches:
            both = [_launch(t, n) for t, n in zip(both, (launches * 2)[:2], strict=True)]
        return pd.concat([t.astype(object) for t in both], ignore_index=True), (both[0], both[1])
    from attribution.analyze.interventions import check_known

    top = check_known(recording, base)
    if arm is None:
        raise InputError(f"--arm is missing: name the arm of {recording.path.name} that is compared with {top}")
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


def _launch(table: pd.DataFrame, number: int) -> pd.DataFrame:
    """The rows of one launch.  Raises InputError."""
    mine = table[table["launch"] == number]
    if mine.empty:
        known = ", ".join(map(str, sorted(set(table["launch"]))[:12]))
        raise InputError(f"--launch {number}: there are {known}")
    return mine


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


def _pcs(path: Path, point: str | None) -> pd.DataFrame:
    """Counts per instruction of a recording, or of a profiler's file as it is.  Raises InputError, DataError."""
    if not path.is_file():
        return open_point(path, point).table("pcs")
    from attribution.ingest.read import read

    if point is not None:
        raise InputError(f"--point {point}: {path.name} is a profiler's file, which has no points")
    return read(path).table("pcs")


def _regions(
    pcs: pd.DataFrame, metric: str, texts: list[str], kernel_name: str | None, launches: list[int], json: bool
) -> None:
    from attribution.analyze.regions import by_region, parse

    if len(launches) > 1:
        raise InputError(
            f"--launch was given {len(launches)} times: counts by region are of one launch, or of all added up"
        )
    found = by_region(pcs, [parse(t) for t in texts], metric, kernel_name, launches[0] if launches else None)
    rows = records(found)
    if json:
        print_json(rows)
        return
    folders = zip(*(file.split("/")[:-1] for file in set(found["file"]) - {""}), strict=False)
    folder = "".join(parts[0] + "/" for parts in takewhile(lambda parts: len(set(parts)) == 1, folders))
    for row in rows:
        row |= {"share": f"{row['share']:.1%}", **{k: str(row[k]).replace(folder, "", 1) for k in ("region", "file")}}
    here = pcs[pcs["metric"].astype(str) == metric]
    added = here.loc[
        here["kernel_name"].astype(str) == (kernel_name or here["kernel_name"].iloc[0]), "launch"
    ].nunique()
    where = f"launch {launches[0]}" if launches else f"{added} launches added up"
    print(f"{metric} by source region, {where}: {found['value'].sum():.6g} {found['unit'].iloc[0]} in all")
    heads = ("region", "role", "share", "value", "instructions", "file")
    print_rows(rows, {k: k for k in heads})
