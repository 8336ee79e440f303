"""`attr ingest FILE...`: profilers' files as tables; and what `attr show` prints for one of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attribution.cli.options import Json, Out, Overwrite
from attribution.cli.output import print_json, print_rows
from attribution.show.cells import harmless
from attribution.tables import records

if TYPE_CHECKING:
    import pandas as pd

    from attribution.ingest.ingested import Ingested
    from attribution.recording import Recording

_SHOWN = 12
"""Rows of each kind that the terminal gets; --json and --out have them all."""


def ingest(
    files: Annotated[list[Path], typer.Argument(help="Files of ncu, nsys or a PyTorch profiler; any mixture.")],
    out: Out = None,
    overwrite: Overwrite = False,
    time_unit: Annotated[
        str | None, typer.Option("--time-unit", help="Unit of a Chrome trace whose tool did not write us: ns, ms, s.")
    ] = None,
    decimal: Annotated[
        str | None, typer.Option("--decimal", help="Decimal mark of a CSV from another locale: ','.")
    ] = None,
    max_bytes: Annotated[
        int | None, typer.Option("--max-bytes", help="Limit on a text file after decompression, bytes.")
    ] = None,
    json: Json = False,
) -> None:
    """Read profilers' files into tables: print what they hold, and keep it with --out."""
    from attribution.errors import InputError
    from attribution.recording import check_free

    if out is not None:
        check_free(out, overwrite)
    if len({f.name for f in files}) < len(files):
        raise InputError("two of the files have the same name, which is what their rows are told apart by: rename one")
    options = {"time_unit": time_unit, "decimal": decimal, "max_bytes": max_bytes}
    read_ones = [_read(f, {k: v for k, v in options.items() if v is not None}) for f in files]
    if out is not None:
        _write(read_ones, out, overwrite)
    if json:
        print_json([file_rows(one) for one in read_ones])
        return
    for one in read_ones:
        _print(one)
    if out is not None:
        print(f"recording: {out}")


def _read(path: Path, options: dict[str, Any]) -> Ingested:
    """Read one file with those of the options that its kind has; the others are for its neighbours."""
    from attribution.ingest.read import OPTIONS, kind_of, read

    kind = kind_of(path)
    return read(path, kind, **{k: v for k, v in options.items() if k in OPTIONS[kind]})


def _write(read_ones: list[Ingested], out: Path, overwrite: bool) -> None:
    from attribution.ingest import frames
    from attribution.recording import write_tables

    names = dict.fromkeys(name for one in read_ones for name in one.tables)
    tables = {n: frames.concat(n, [one.tables[n] for one in read_ones if n in one.tables]) for n in names}
    sources = [{"file": one.file, "kind": one.kind} for one in read_ones]
    write_tables(out, kind="ingest", tables=tables, manifest_extra={"sources": sources}, overwrite=overwrite)


def file_rows(one: Ingested) -> dict[str, Any]:
    """What `--json` says of one file: its description, every launch, kernel sum and range, and all notes."""
    return {
        **records(one.table("files"))[0],
        "rows": {name: len(frame) for name, frame in one.tables.items()},
        "launches": records(one.table("launches")),
        "kernels": kernel_sums(one.table("kernels")),
        "range_times": records(one.table("range_times")),
        "notes": records(one.table("notes")),
    }


def kernel_sums(kernels: pd.DataFrame) -> list[dict[str, Any]]:
    """Timeline kernels by name: count, sum, union; longest first."""
    from attribution.ingest.timeline import union_ns

    rows = []
    for name, mine in kernels.groupby("kernel_name", observed=True):
        time, begin, end = mine["dur_ns"], mine["begin_ns"].to_numpy(), mine["end_ns"].to_numpy()
        flagged = int((mine["flags"] != "").sum())
        rows.append({
            "kernel_name": str(name), "kernels": len(mine), "time_ns": int(time.sum()), "busy_ns": union_ns(begin, end),
            "shortest_ns": int(time.min()), "longest_ns": int(time.max()), "flagged": flagged,
        })  # fmt: skip
    return sorted(rows, key=lambda row: -int(str(row["time_ns"])))


def _print(one: Ingested) -> None:
    print(harmless(str(one)))
    launches = one.table("launches")[["launch", "kernel_name", "grid", "block", "time_ns", "passes", "nvtx"]]
    _print_some(_whole_ns(records(launches)), "launches")
    _print_some(kernel_sums(one.table("kernels")), "kernels by name")
    times = one.table("range_times")
    busy = times[times["kernels"] > 0].drop(columns=["file", "range"])
    _print_some(records(busy), "kernel time in ranges, by rule")
    for note in one.notes:
        print(f"  note: {note.text}")
    print()


def _whole_ns(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Times without an exponent; a time that is not in the file stays NaN, which prints as a dash."""
    return [{**r, "time_ns": int(r["time_ns"]) if r["time_ns"] == r["time_ns"] else None} for r in rows]


def _print_some(rows: list[dict[str, Any]], what: str) -> None:
    if not rows:
        return
    more = f", {_SHOWN} of {len(rows)}; --json has all" if len(rows) > _SHOWN else ""
    print(f"\n{what}{more}")
    cut = [{k: v[:57] + "..." if isinstance(v, str) and len(v) > 60 else v for k, v in row.items()} for row in rows]
    print_rows(cut[:_SHOWN])


def show_file(path: Path, plot: Path | None, json: bool) -> None:
    """What `attr show FILE` prints and draws."""
    from attribution.ingest.read import read

    one = read(path)
    if plot is not None:
        from attribution.show.files import draw_file

        draw_file(one.tables, plot)
    if json:
        print_json(file_rows(one))
        return
    _print(one)
    if plot is not None:
        print(f"figure: {plot}")


def show_ingested(recording: Recording, plot: Path | None, json: bool) -> None:
    """What `attr show RECORDING` prints and draws for a recording that `attr ingest --out` wrote."""
    recording.verify()
    tables = {name: recording.table(name) for name in recording.table_names}
    if plot is not None:
        from attribution.show.files import draw_file

        draw_file(tables, plot)
    files = records(recording.table("files"))
    kernels = kernel_sums(recording.table("kernels"))
    launches = records(recording.table("launches"))
    notes = records(recording.table("notes"))
    if json:
        print_json({"manifest": recording.manifest, "files": files, "launches": launches, "kernels": kernels,
                    "range_times": records(recording.table("range_times")), "notes": notes})  # fmt: skip
        return
    print(recording)
    _print_some(files, "files")
    _print_some(_whole_ns(launches), "launches")
    _print_some(kernels, "kernels by name")
    for note in notes:
        print(f"  note: {note['file']}: {note['note']}")
    if plot is not None:
        print(f"figure: {plot}")
