"""One column of a table, and a table of them.

Types: int8..int64, float64 (NaN is "not known"), bool, str (never null), category (a str with few values).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One column: type, and a meaning that names the unit."""

    type: str
    doc: str


def table(**columns: tuple[str, str]) -> dict[str, Column]:
    """Column name -> Column, in stored order."""
    return {name: Column(*typed) for name, typed in columns.items()}
