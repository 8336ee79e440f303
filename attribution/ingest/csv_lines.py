"""Rows of ncu's CSV among whatever else a terminal holds.

In: the text of a file.  Out: records (first line number, cells) and the lines that are no rows.
A row begins with a quote and ends where its quotes are balanced: cells may hold commas and line
ends.  Lines that begin otherwise are banners of the profiler or output of the application.
Misuse: a file without a line that starts with "ID" is not ncu's CSV and is refused.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass

from attribution.errors import DataError

_MAX_ROW_LINES = 10_000


@dataclass(frozen=True)
class Record:
    """One row: physical line it begins on, from 1, and its cells."""

    line: int
    cells: list[str]


def records(text: str, name: str) -> tuple[list[Record], list[tuple[int, str]]]:
    """Header and rows in order, and (line, text) of what was passed over.  Raises DataError."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found: list[Record] = []
    skipped: list[tuple[int, str]] = []
    quoted = True
    at = 0
    while at < len(lines):
        line = lines[at]
        if _is_header(line):
            quoted = line.startswith('"')
        elif not found or not _begins_row(line, quoted):
            if line.strip():
                skipped.append((at + 1, line))
            at += 1
            continue
        taken, at_next = _balanced(lines, at, name)
        found.append(Record(at + 1, _cells(taken, at + 1, name)))
        at = at_next
    if not found:
        raise DataError(f"{name}: {_why_not(text)}")
    return found, skipped


def _is_header(line: str) -> bool:
    return line.startswith(('"ID",', "ID,"))


def _begins_row(line: str, quoted: bool) -> bool:
    return line.startswith('"') if quoted else line[:1] in set('"0123456789,')


def _balanced(lines: list[str], at: int, name: str) -> tuple[str, int]:
    """Join lines from `at` until the number of quotes is even."""
    taken, quotes, end = [], 0, at
    while end < len(lines):
        taken.append(lines[end])
        quotes += lines[end].count('"')
        end += 1
        if quotes % 2 == 0:
            return "\n".join(taken), end
        if end - at > _MAX_ROW_LINES:
            break
    raise DataError(
        f"{name}: line {at + 1}: a quoted cell that begins here never ends; the file is truncated or damaged"
    )


def _cells(row: str, line: int, name: str) -> list[str]:
    try:
        parsed = list(csv.reader([row], strict=True))
    except csv.Error as error:
        raise DataError(f"{name}: line {line}: not a CSV row: {error}") from error
    return parsed[0] if parsed else []


def _why_not(text: str) -> str:
    """Say what a text without ncu's header looks like."""
    if "\n    Section: " in text or ("==PROF==" in text and '","' not in text):
        return (
            "console text of ncu, rounded and scaled for reading, not CSV; profile again with --csv, "
            "or export the report with ncu --import FILE --csv"
        )
    if "__" in text[:2000] and "," in text[:2000]:
        return (
            'no header line that begins with "ID": not ncu\'s own CSV but perhaps a table made from '
            "one, which has lost kernels and units; give the file that ncu wrote"
        )
    return 'no header line that begins with "ID": not CSV output of ncu'
