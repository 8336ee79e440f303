"""The report of ingested profiler files: what they hold, launch by launch, and what could not be known.

In: an opened recording of kind `ingest`.  Out: `Section`s.
Misuse: times of a profiler's file are of its own scope; nothing here is compared with a measured arm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attribution.recording import Recording
from attribution.show.cells import text
from attribution.show.report_blocks import Block, Column, Kind, Section, Table, Text
from attribution.show.report_provenance import ROWS, tables_block
from attribution.tables import records

if TYPE_CHECKING:
    import pandas as pd

SHOWN = (
    ("files", "Files", ("file", "kind", "tool", "gpu", "size_bytes", "sha256")),
    ("launches", "Profiled launches",
     ("launch", "kernel_name", "demangled_name", "grid", "block", "time_ns", "passes", "replay", "cache_control")),
    ("kernels", "Kernels of a timeline", ("kernel", "kernel_name", "begin_ns", "dur_ns", "device", "stream", "flags")),
    ("range_times", "Kernel time in ranges, by rule", ("range_name", "occurrence", "rule", "kernels", "time_ns", "busy_ns")),
    ("notes", "What was dropped, flagged or could not be known", ("file", "subject", "count", "note")),
)  # fmt: skip
"""Table, its heading, and the columns that a reader needs first."""


def file_sections(recording: Recording) -> tuple[Section, ...]:
    """One section of tables, and the provenance."""
    blocks = [_block(recording.table(name), name, title, columns) for name, title, columns in SHOWN]
    lead = "Rows as the files state them; absent values are a dash."
    return (
        Section("files", "Files", lead, tuple(blocks)),
        Section("provenance", "Provenance", "How to see that nothing was changed since.", (tables_block(recording),)),
    )


def _block(table: pd.DataFrame, name: str, title: str, columns: tuple[str, ...]) -> Block:
    if table.empty:
        return Text(f"{title}: the files hold no {name.replace('_', ' ')}.", missing=True)
    heads = tuple(Column(c.replace("_", " "), _kind(table, c)) for c in columns)
    rows = tuple(tuple(text(r[c]) for c in columns) for r in records(table.head(ROWS)))
    return Table(title, heads, rows, f"The first {ROWS} of {len(table)}." if len(table) > ROWS else "")


def _kind(table: pd.DataFrame, column: str) -> Kind:
    if column in ("kernel_name", "demangled_name", "sha256"):
        return "code"
    if column == "note":
        return "prose"
    return "number" if table[column].dtype.kind in "if" else "text"
