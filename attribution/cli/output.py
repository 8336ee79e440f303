"""Rows to the terminal, as an aligned table or as JSON: the same rows either way."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attribution.show.cells import text

if TYPE_CHECKING:
    from attribution.measure.machine import Progress

Rows = Sequence[Mapping[str, Any]]
UNBROKEN = 24
"""Characters of a word that stand in one line of a table."""


def print_json(value: Any) -> None:
    """One JSON document; what JSON cannot hold (NaN) becomes null."""
    print(json.dumps(_plain(value), indent=1, allow_nan=False))


def print_rows(rows: Rows, columns: Mapping[str, str] | None = None, room: int = 160) -> None:
    """Print `columns` (key -> heading; all when None) of the rows, numbers to the right, wrapped to the terminal.

    A pipe has no width: there a table has `room` characters.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    heads = dict(columns) if columns else {key: key.replace("_", " ") for key in rows[0]}
    cells = {key: [head, *(text(row.get(key)) for row in rows)] for key, head in heads.items()}
    whole = [min(max((len(word) for cell in c for word in cell.split()), default=1), UNBROKEN) for c in cells.values()]
    gaps = 3 * (len(heads) - 1)
    wide = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(width=None if wide else max(room, sum(whole) + gaps))
    # Below this a table is one character a line: rather let the terminal break its lines.
    console.width = max(console.width, 60)
    lines = [max(len(line) for cell in c for line in cell.split("\n")) for c in cells.values()]
    widths = fitted(lines, whole, console.width - gaps)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for (key, head), width in zip(heads.items(), widths, strict=True):
        number = all(isinstance(r.get(key), (int, float)) and not isinstance(r.get(key), bool) for r in rows)
        table.add_column(head, justify="right" if number else "left", overflow="fold", width=width)
    for row in rows:
        # Text, not markup: names come from files.
        table.add_row(*(Text(text(row.get(key))) for key in heads))
    console.print(table)


def fitted(lines: Sequence[int], whole: Sequence[int], room: int) -> Sequence[int | None]:
    """Widths of columns in `room` characters that break no word: the widest gives first.  None where there is no need or no room.

    lines: the longest line of each column; whole: its longest word.
    """
    widths = list(lines)
    if sum(widths) <= room or sum(map(min, widths, whole)) > room:
        return [None] * len(widths)
    while sum(widths) > room:
        widest = max((i for i, width in enumerate(widths) if width > whole[i]), key=lambda i: widths[i])
        widths[widest] -= 1
    return widths


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress]:
    """A bar on standard error with what is running now; nothing when quiet."""
    if quiet:
        yield lambda done, total, label: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),  # that of now: a command that is run meanwhile may have its own
    )
    with shown:
        task = shown.add_task("starting", total=None)
        yield lambda done, total, label: shown.update(task, completed=done, total=total, description=label)
