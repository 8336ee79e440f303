"""Nsight Compute's CSV, as it comes from a terminal, as `launches`, `metrics` and `rules`.

In: what `ncu --csv` printed (page details or raw), with whatever the application printed around it.
Out: `Ingested` with values in base units; the file's own unit stays beside them in `unit_stated`.
Misuse: a label such as "Memory Throughput" is unique only within its section; a locale that writes
1.234,5 must be stated (`decimal=","`): nothing in the file says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pandas as pd

from attribution.errors import DataError
from attribution.ingest import bounded, csv_lines, frames, units
from attribution.ingest.csv_lines import Record
from attribution.ingest.ingested import Ingested, Note, ingested
from attribution.ingest.names import kernel_function

_LAUNCH = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
    "Block Size", "Grid Size", "Device", "CC",
)  # fmt: skip
_DETAIL = ("Section Name", "Metric Name", "Metric Unit", "Metric Value")
_RULE = (
    "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup"
)  # fmt: skip
MAX_BYTES = 64 << 20
"""A CSV is read whole: its rows take up to about twenty times its size."""
_INSTANCES = re.compile(r"(\S+) \((.*)\)")


@dataclass
class _Rows:
    """Columns under construction."""

    decimal: str
    keep_unknown_units: bool
    launches: dict[tuple[str, str, str], dict[str, str]] = field(default_factory=dict)
    metrics: list[tuple[object, ...]] = field(default_factory=list)
    rules: list[tuple[object, ...]] = field(default_factory=list)
    unknown_units: dict[str, int] = field(default_factory=dict)


def load(
    path: Path,
    *,
    decimal: str = ".",
    keep_unknown_units: bool = False,
    max_bytes: int = MAX_BYTES,
) -> Ingested:
    """Read one CSV of Nsight Compute.

    With `keep_unknown_units`, a unit that is not known keeps its value as stated, and a note says so.
    Raises DataError for a file without the header line, a row with the wrong number of cells, a
    cell that is not a number where one belongs, an unknown unit; each with its line number.
    """
    path = Path(path)
    text = bounded.read_text(path, max_bytes)
    lines = csv_lines.Lines(text, path.name)
    rows = _Rows(decimal, keep_unknown_units)
    header: list[str] = []
    stated: list[str] | None = None
    for record in lines:
        if record.cells[0] == "ID":
            header, stated = _checked_header(record, path.name), None
        elif "Metric Name" in header:
            _details_row(rows, header, record, path.name)
        elif stated is None:
            stated = _units_row(header, record, path.name)
        else:
            _raw_row(rows, header, stated, record, path.name)
    notes = _notes(lines, rows)
    if not rows.launches:
        raise DataError(f"{path.name}: a header of ncu and no row under it; was the kernel profiled?")
    return ingested(path, "ncu-csv", _tables(path.name, rows, notes), notes, gpu="")


def _checked_header(record: Record, name: str) -> list[str]:
    cells = record.cells
    wanted = ("ID", "Kernel Name", *(_DETAIL if "Metric Name" in cells else ()))
    if missing := [w for w in wanted if w not in cells]:
        raise DataError(f"{name}: line {record.line}: header without {missing[0]!r}: not output of ncu")
    known = {*_LAUNCH, *_DETAIL, *_RULE}
    named = [c for c in cells if c in known]
    if len(set(named)) < len(named):
        raise DataError(f"{name}: line {record.line}: a column of the header appears twice")
    return cells


def _launch(rows: _Rows, cells: dict[str, str], line: int, name: str) -> int:
    """Ordinal of the row's launch; a launch is one ID of one process."""
    key = (cells.get("Host Name", ""), cells.get("Process ID", ""), cells["ID"])
    if not cells["ID"].isascii() or not cells["ID"].isdigit() or len(cells["ID"]) > 18:
        raise DataError(f"{name}: line {line}: ID {cells['ID'][:40]!r} is not a number")
    about = {c: cells.get(c, "") for c in _LAUNCH}
    seen = rows.launches.setdefault(key, about | {"ordinal": str(len(rows.launches))})
    if seen["Kernel Name"] != about["Kernel Name"]:
        raise DataError(
            f"{name}: line {line}: ID {cells['ID']} is {about['Kernel Name'][:60]!r} and was "
            f"{seen['Kernel Name'][:60]!r} before; two outputs in one file: read them one by one"
        )
    return int(seen["ordinal"])


def _details_row(rows: _Rows, header: list[str], record: Record, name: str) -> None:
    values = record.cells
    short = [c for c in header if c not in _RULE]
    if len(values) == len(short) + 1 and values[-1] == "" and len(header) > len(short):
        values = values[:-1]  # a metric row under a header with rule columns: one comma too many
    if len(values) not in (len(header), len(short)):
        raise DataError(
            f"{name}: line {record.line}: {len(values)} cells, allowed are {len(header)}"
            + (f" or {len(short)}" if len(short) < len(header) else "")
            + "; the row is damaged or cut"
        )
    cells = dict(zip(header, values, strict=False))
    launch = _launch(rows, cells, record.line, name)
    if cells.get("Metric Name"):
        where = (launch, cells.get("Section Name", ""), cells["Metric Name"])
        _metric(rows, where, cells["Metric Unit"], cells["Metric Value"], record.line, name)
    if cells.get("Rule Name"):
        speedup = cells.get("Estimated Speedup", "")
        percent = float("nan")
        if speedup:
            percent = float(_number(speedup, "%", rows, record.line, name)[0])
        rows.rules.append(
            (launch, cells.get("Section Name", ""), cells["Rule Name"], cells.get("Rule Type", ""),
             cells.get("Rule Description", ""), cells.get("Estimated Speedup Type", ""), percent)
        )  # fmt: skip


def _units_row(header: list[str], record: Record, name: str) -> list[str]:
    """The second line of the raw page holds the units; without one every unit is unknown."""
    if len(record.cells) != len(header) or record.cells[0] != "":
        raise DataError(
            f"{name}: line {record.line}: the row of units is missing under the header of the raw "
            "page; without it microseconds and nanoseconds cannot be told apart"
        )
    return record.cells


def _raw_row(rows: _Rows, header: list[str], stated: list[str], record: Record, name: str) -> None:
    if len(record.cells) != len(header):
        raise DataError(
            f"{name}: line {record.line}: {len(record.cells)} cells, allowed are {len(header)}; "
            "the row is damaged or cut"
        )
    cells = dict(zip(header, record.cells, strict=True))
    launch = _launch(rows, cells, record.line, name)
    for column, unit, value in zip(header, stated, record.cells, strict=True):
        if column not in _LAUNCH:
            _metric(rows, (launch, "", column), unit, value, record.line, name)


def _metric(rows: _Rows, where: tuple[int, str, str], unit: str, cell: str, line: int, name: str) -> None:
    found = _INSTANCES.fullmatch(cell)
    cell, instances = (found[1], found[2].split("; ")) if found and _numeric(found[1]) else (cell, [])
    for ordinal, text in enumerate([cell, *instances]):
        instance = f"#{ordinal - 1}" if ordinal else ""
        state, value, said = "absent", float("nan"), ""
        base = _base(unit, rows, line, name)
        if units.is_nan(text):
            said = "nan"
        elif text.strip() not in units.ABSENT:
            if unit == "" and not _numeric(text):
                state, said = "value", text
            else:
                exact, base = _number(text, unit, rows, line, name)
                value, state = float(exact), "zero" if exact == 0 else "value"
                if exact == exact.to_integral_value() and int(exact) != int(value):
                    said = str(int(exact))
        rows.metrics.append((*where, instance, base, unit, state, value, said))


def _numeric(text: str) -> bool:
    """Whether the cell is meant as a number: digits and number marks only, or so it begins."""
    return re.match(r"\s*[+-]?[\d.,]", text) is not None and not re.search(r"[A-DF-Za-df-z_]", text)


def _base(unit: str, rows: _Rows, line: int, name: str) -> str:
    try:
        return units.base_unit(unit)[0]
    except DataError as error:
        if not rows.keep_unknown_units:
            raise DataError(f"{name}: line {line}: {error}; or keep_unknown_units=True") from error
        rows.unknown_units[unit] = rows.unknown_units.get(unit, 0) + 1
        return unit


def _number(text: str, unit: str, rows: _Rows, line: int, name: str) -> tuple[Decimal, str]:
    try:
        if rows.keep_unknown_units and unit in rows.unknown_units:
            return units.parse_number(text, decimal=rows.decimal), unit
        return units.to_base(text, unit, decimal=rows.decimal)
    except DataError as error:
        raise DataError(f"{name}: line {line}: {error}") from error


def _notes(lines: csv_lines.Lines, rows: _Rows) -> list[Note]:
    notes = []
    if skipped := lines.skipped:
        line, text = lines.first
        notes.append(
            Note("rows", skipped, f"{skipped} lines are not rows of ncu and were passed "
                 f"over, the first is line {line}: {text[:60]!r}")
        )  # fmt: skip
    for unit, count in rows.unknown_units.items():
        notes.append(Note("units", count, f"unit {unit!r} is not known: values kept as stated"))
    absent = sum(row[6] == "absent" for row in rows.metrics)
    if absent:
        notes.append(Note("rows", absent, f"{absent} metric cells hold no value: absent, not zero"))
    return notes


def _tables(file: str, rows: _Rows, notes: list[Note]) -> dict[str, pd.DataFrame]:
    about = list(rows.launches.values())
    names = [kernel_function(a["Kernel Name"]) for a in about]
    launches = _launches(file, about, rows)
    columns = list(zip(*rows.metrics, strict=True)) or [()] * 9
    kernel = [names[launch] for launch in columns[0]]
    labels = ("section", "metric", "instance", "unit", "unit_stated", "state")
    metrics = frames.table(
        "metrics", len(rows.metrics), file=file, launch=list(columns[0]), kernel_name=kernel,
        **dict(zip(labels, columns[1:7], strict=True)), value=list(columns[7]),
        text=list(columns[8]), pass_group=-1, source="csv",
    )  # fmt: skip
    twice = metrics.duplicated(["launch", "section", "metric", "instance"]).sum()
    if twice:
        notes.append(Note("rows", int(twice), f"{twice} metrics appear again in the same section and launch"))
    cols = list(zip(*rows.rules, strict=True)) or [()] * 7
    rules = frames.table(
        "rules", len(rows.rules), file=file, launch=list(cols[0]),
        kernel_name=[names[launch] for launch in cols[0]], section=cols[1], rule=cols[2],
        type=cols[3], message=list(cols[4]), speedup_type=cols[5], speedup_pct=list(cols[6]),
    )  # fmt: skip
    return {"launches": launches, "metrics": metrics, "rules": rules}


def _launches(file: str, about: list[dict[str, str]], rows: _Rows) -> pd.DataFrame:
    times: dict[int, float] = {}
    for launch, _section, metric, instance, unit, _stated, state, value, _text in rows.metrics:
        if (
            isinstance(launch, int)
            and isinstance(value, float)
            and metric in ("gpu__time_duration.sum", "Duration")
            and not instance
            and state != "absent"
        ):
            times.setdefault(launch, value if unit == "ns" else float("nan"))
    whole = [
        [int(a[c]) if a[c].isascii() and a[c].isdigit() and len(a[c]) < 19 else -1 for a in about]
        for c in ("ID", "Process ID", "Context", "Stream")
    ]
    sizes = [[",".join(re.findall(r"\d+", a[c])) for a in about] for c in ("Grid Size", "Block Size")]
    return frames.table(
        "launches", len(about), file=file, launch=list(range(len(about))),
        kernel_name=[kernel_function(a["Kernel Name"]) for a in about],
        demangled_name=[a["Kernel Name"] for a in about], id_in_file=whole[0], process=whole[1],
        context=whole[2], stream=whole[3], gpu=[a["Device"] for a in about],
        cc=[a["CC"] for a in about], grid=sizes[0], block=sizes[1],
        time_ns=[times.get(i, float("nan")) for i in range(len(about))], passes=-1, replay="",
        cache_control="", clock_control="", nvtx="", nvtx_start_end="",
    )  # fmt: skip
