"""Rows of ncu's CSV among whatever else a terminal holds.

In: the text of a file.  Out: records (first line number, cells) and the lines that are no rows.
A row begins with a quote and ends where its quotes are balanced: cells may hold commas and line
ends.  Lines that begin otherwise are banners of the profiler or output of the application.
Misuse: a file without a line that starts with "ID" is not ncu's CSV and is refused.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass

from attribution.errors import DataError

_MAX_ROW_LINES = 10_000


@dataclass(frozen=True)
class Record:
    """One row: physical line it begins on, from 1, and its cells."""

    line: int
    cells: list[str]


class Lines:
    """Rows of a text, one after the other; `skipped` counts the lines that are none, `first` is the first of them."""

    def __init__(self, text: str, name: str) -> None:
        self.skipped, self.first = 0, (0, "")
        self._text, self._name = text, name

    def __iter__(self) -> Iterator[Record]:
        """Header and rows in order.  Raises DataError for a row that does not end, and where there is no header."""
        lines = enumerate(io.StringIO(self._text, newline=None), 1)
        found, quoted = False, True
        for number, line in lines:
            if _is_header(line):
                found, quoted = True, line.startswith('"')
            elif not found or not _begins_row(line, quoted):
                self._skip(number, line)
                continue
            row = _balanced(line, number, lines, self._name)
            yield Record(number, _cells(row.rstrip("\n"), number, self._name))
        if not found:
            raise DataError(f"{self._name}: {_why_not(self._text)}")

    def _skip(self, number: int, line: str) -> None:
        if line.strip():
            self.first = self.first if self.skipped else (number, line.rstrip("\n"))
            self.skipped += 1


def _is_header(line: str) -> bool:
    return line.startswith(('"ID",', "ID,"))


def _begins_row(line: str, quoted: bool) -> bool:
    return line.startswith('"') if quoted else line[:1] in set('"0123456789,')


def _balanced(line: str, number: int, lines: Iterator[tuple[int, str]], name: str) -> str:
    """The row that begins with `line`: as many further lines as make its number of quotes even."""
    taken, quotes = [line], line.count('"')
    while quotes % 2:
        further = next(lines, None)
        if further is None or len(taken) > _MAX_ROW_LINES:
            raise DataError(
                f"{name}: line {number}: a quoted cell that begins here never ends; the file is truncated or damaged"
            )
        taken.append(further[1])
        quotes += further[1].count('"')
    return "".join(taken)


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
