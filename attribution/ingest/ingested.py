"""What reading one profiler file gives: its kind, tables, and one line for each thing left out.

Out: `Ingested`.  Every table conforms to `attribution.tables`; a table without rows is absent.
Misuse: a missing table means that the file has no such rows, never that they are zero.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from attribution.ingest import frames


@dataclass(frozen=True)
class Note:
    """One thing that was dropped, flagged or could not be known."""

    subject: str
    count: int
    text: str


@dataclass(frozen=True)
class Ingested:
    """Tables of one profiler file."""

    kind: str
    file: str
    tables: Mapping[str, pd.DataFrame] = field(repr=False)
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        rows = ", ".join(f"{len(frame)} {name}" for name, frame in self.tables.items())
        return f"{self.file}: {self.kind}: {rows or 'no rows'}; {len(self.notes)} notes"

    def table(self, name: str) -> pd.DataFrame:
        """Table `name`, without rows where the file has none."""
        found = self.tables.get(name)
        return frames.empty(name) if found is None else found


def ingested(
    path: Path,
    kind: str,
    tables: Mapping[str, pd.DataFrame],
    notes: list[Note],
    *,
    tool: str = "",
    gpu: str = "",
) -> Ingested:
    """Add the `files` and `notes` tables and leave out the tables without rows."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    files = frames.table(
        "files",
        1,
        file=path.name,
        kind=kind,
        tool=tool,
        gpu=gpu,
        size_bytes=path.stat().st_size,
        sha256=digest.hexdigest(),
    )
    said = frames.table(
        "notes",
        len(notes),
        file=path.name,
        subject=[note.subject for note in notes],
        count=[note.count for note in notes],
        note=[note.text for note in notes],
    )
    whole = {"files": files, **tables, "notes": said}
    kept = {name: frame for name, frame in whole.items() if len(frame)}
    return Ingested(kind, path.name, kept, tuple(notes))
