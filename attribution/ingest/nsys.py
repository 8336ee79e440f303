"""SQLite exports of Nsight Systems as `kernels`, `copies`, `ranges` and `range_times`.

In: the file of `nsys export --type sqlite`, any schema since 2023.  Out: `Ingested`, times in ns of the session's clock.
A table exists in the export only when it has rows, and columns come and go with the version: both are looked up.
Misuse: no `kernels` in the result means that the export has none, not that the program launched none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from attribution.errors import DataError
from attribution.ingest import bounded
from attribution.ingest.device_events import copy_table, kernel_table, range_table
from attribution.ingest.ingested import Ingested, Note, ingested
from attribution.ingest.ranges import range_times

MAGIC = b"SQLite format 3\0"
MAX_ROWS = 5_000_000
"""Of one table, where the caller states no other: about 3 GB of memory."""
_PROCESS = ~0xFFFFFF
"""A globalTid is the process in its high bits and the thread in the low 24."""
_RANGE_KINDS = {59: "push_pop", 60: "start_end", 70: "push_pop", 71: "start_end"}
_DOMAIN_CREATE = 75
_COPY_KINDS = {0: "unknown", 1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
_STEPS_PER_CHECK, _MAX_CHECKS = 10_000, 2_000_000


def load(path: Path, *, max_rows: int = MAX_ROWS) -> Ingested:
    """Read one export.  Raises DataError for a file that is damaged, not of nsys, or has a table over `max_rows`."""
    path = Path(path)
    bounded.check_file(path)
    with path.open("rb") as stream:
        if stream.read(16) != MAGIC:
            raise DataError(f"{path.name}: not SQLite; export it with `nsys export --type sqlite FILE.nsys-rep`")
    try:
        # immutable: the file is somebody's data; nothing is written beside it, and a stale journal is not replayed.
        with closing(sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)) as connection:
            return _load(path, _Export(connection, path.name, max_rows))
    except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{path.name}: damaged SQLite file: {str(error)[:200]}; export it again") from error


def _load(path: Path, export: _Export) -> Ingested:
    names = export.tables
    if "StringIds" not in names or not names & {"META_DATA_EXPORT", "EXPORT_META_DATA"}:
        raise DataError(
            f"{path.name}: SQLite, but not an export of Nsight Systems: it has no StringIds and no META_DATA_EXPORT"
        )
    notes: list[Note] = []
    kernels = _kernels(path.name, export, notes)
    ranges = _ranges(path.name, export, notes)
    tables = {"kernels": kernels, "copies": _copies(path.name, export), "ranges": ranges}
    tables["range_times"] = range_times(kernels, ranges)
    version = export.meta("EXPORT_PRODUCT_VERSION")
    return ingested(path, "nsys-sqlite", tables, notes, tool=f"Nsight Systems {version}".strip(), gpu=export.gpus())


class _Export:
    """Queries by table and column, where they exist."""

    def __init__(self, connection: sqlite3.Connection, name: str, max_rows: int) -> None:
        self._db, self._name, self._max = connection, name, max_rows
        self._left = _MAX_CHECKS
        connection.set_progress_handler(self._tick, _STEPS_PER_CHECK)  # a damaged index can loop for ever
        self.tables = {str(r[0]) for r in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        self._texts: dict[int, str] | None = None

    def _tick(self) -> bool:
        self._left -= 1
        return self._left < 0

    def columns(self, table: str, wanted: Sequence[str]) -> list[list[Any]]:
        """The wanted columns of a table as lists; None for NULL and for a column that the version lacks."""
        if table not in self.tables:
            return [[] for _ in wanted]
        there = {str(r[1]) for r in self._db.execute(f'PRAGMA table_info("{table}")')}
        select = ", ".join(f'"{c}"' if c in there else "NULL" for c in wanted)
        rows = self._db.execute(f'SELECT {select} FROM "{table}" LIMIT {self._max + 1}').fetchall()
        if len(rows) > self._max:
            raise DataError(f"{self._name}: {table} has more than {self._max:,} rows; allow more with max_rows")
        return [list(c) for c in zip(*rows, strict=True)] or [[] for _ in wanted]

    def text(self, number: Any) -> str:
        """The string of an id, '' where there is none."""
        if self._texts is None:
            ids, values = self.columns("StringIds", ["id", "value"])
            self._texts = {i: str(v) for i, v in zip(ids, values, strict=True)}
        return self._texts.get(number, "")

    def meta(self, key: str) -> str:
        """An entry of the export's own description, under either of its table names."""
        for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
            for name, value in zip(*self.columns(table, ["name", "value"]), strict=True):
                if name == key:
                    return str(value)
        return ""

    def gpus(self) -> str:
        """Names of the GPUs, sorted."""
        return ", ".join(sorted({str(n) for n in self.columns("TARGET_INFO_GPU", ["name"])[0] if n}))


def _kernels(file: str, export: _Export, notes: list[Note]) -> pd.DataFrame:
    columns = [
        "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "demangledName",
        "graphNodeId", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "shortName",
    ]  # fmt: skip
    start, end, device, context, stream, correlation, process, name, node, *sides = export.columns(
        "CUPTI_ACTIVITY_KIND_KERNEL", columns
    )
    if not start:
        notes.append(Note("kernels", 0, "the export has no kernel table: no kernel was traced"))
    calls = _calls(export)
    keys = list(zip(map(_whole, process), map(_whole, correlation), strict=True))
    found = [calls.get(key) for key in keys]
    return kernel_table(
        file, notes, name=[export.text(n) or export.text(s) for n, s in zip(name, sides[6], strict=True)],
        begin=_int64(start), end=_int64(end), device=_all(device), context=_all(context), stream=_all(stream),
        correlation=[k[1] for k in keys], process=[k[0] for k in keys], graph=_all(node),
        launch_begin=[c[0] if c else -1 for c in found], launched=[c is not None for c in found],
        launch_thread=[_thread(c[1]) if c else "" for c in found],
        grid=_sizes(sides[0:3]), block=_sizes(sides[3:6]),
    )  # fmt: skip


def _calls(export: _Export) -> dict[tuple[int, int], tuple[int, int]]:
    """(process, correlation) -> (begin, thread) of the outermost call."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    wanted = ["start", "globalTid", "correlationId"]
    for start, thread, correlation in zip(*export.columns("CUPTI_ACTIVITY_KIND_RUNTIME", wanted), strict=True):
        if correlation is None or thread is None or start is None:
            continue
        key = (_whole(thread & _PROCESS), _whole(correlation))
        if key not in found or start < found[key][0]:
            found[key] = (int(start), int(thread))
    return found


def _copies(file: str, export: _Export) -> pd.DataFrame:
    rows: list[tuple[Any, ...]] = []
    for kind in ("memcpy", "memset"):
        wanted = ["start", "end", "deviceId", "streamId", "correlationId", "bytes", "copyKind"]
        for *values, what in zip(*export.columns(f"CUPTI_ACTIVITY_KIND_{kind.upper()}", wanted), strict=True):
            named = "Memset" if kind == "memset" else f"Memcpy {_COPY_KINDS.get(what, f'kind {what}')}"
            rows.append((kind, named, *values))
    kinds, names, start, end, device, stream, correlation, size = list(zip(*rows, strict=True)) or [()] * 8
    return copy_table(
        file, kind=list(kinds), name=list(names), begin=_int64(start), end=_int64(end), device=_all(device),
        stream=_all(stream), correlation=_all(correlation), size_bytes=_all(size),
    )  # fmt: skip


def _ranges(file: str, export: _Export, notes: list[Note]) -> pd.DataFrame:
    wanted = ["start", "end", "eventType", "text", "textId", "globalTid", "domainId"]
    events = list(zip(*export.columns("NVTX_EVENTS", wanted), strict=True))
    domains = {
        (_process(tid), domain): text or export.text(number)
        for _, _, kind, text, number, tid, domain in events
        if kind == _DOMAIN_CREATE
    }
    whole = [e for e in events if e[2] in _RANGE_KINDS and e[0] is not None and e[1] is not None]
    unended = sum(e[2] in _RANGE_KINDS for e in events) - len(whole)
    if unended:
        notes.append(
            Note("ranges", unended, f"{unended} NVTX ranges have no end: dropped, not closed at the trace's end")
        )
    marks = sum(e[2] not in _RANGE_KINDS and e[2] != _DOMAIN_CREATE for e in events)
    if marks:
        notes.append(Note("ranges", marks, f"{marks} NVTX marks and names are no ranges and were passed over"))
    return range_table(
        file, name=[text or export.text(number) for _, _, _, text, number, _, _ in whole],
        begin=_int64([e[0] for e in whole]), end=_int64([e[1] for e in whole]), thread=[_thread(e[5]) for e in whole],
        kind=[_RANGE_KINDS[e[2]] for e in whole], domain=[domains.get((_process(e[5]), e[6]), "") for e in whole],
    )  # fmt: skip


def _process(thread: Any) -> int:
    return _whole(thread & _PROCESS) if isinstance(thread, int) else -1


def _thread(thread: Any) -> str:
    return f"{thread & _PROCESS}/{thread & 0xFFFFFF}" if isinstance(thread, int) else ""


def _whole(value: Any) -> int:
    return value if value.__class__ is int and value >= 0 else -1


def _all(values: Sequence[Any]) -> list[int]:
    return [_whole(v) for v in values]


def _int64(values: Sequence[Any]) -> np.ndarray:
    if wrong := [v for v in values if v.__class__ is not int]:
        raise ValueError(f"a time is {wrong[0]!r}, not an integer")
    if far := [v for v in values if abs(v) >= 1 << 61]:
        raise ValueError(f"a time is {far[0]} ns, which no session reaches")
    return np.array(values, np.int64)


def _sizes(sides: Sequence[Sequence[Any]]) -> list[str]:
    return ["" if None in side else ",".join(map(str, side)) for side in zip(*sides, strict=True)]
