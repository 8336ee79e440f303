"""The tables of a recording: every column with its type and meaning, written once.

In: nothing.  Out: `TABLES`, and `conform` which gives a frame exactly the declared columns and types.
Tables are long: one row per observation.  Samples are kept; statistics are computed when reading.
Misuse: do not add a column to a frame that is not declared here; `conform` refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attribution.errors import DataError
from attribution.tables.column import Column
from attribution.tables.measured import MEASURED
from attribution.tables.profiled import PROFILED

if TYPE_CHECKING:
    import pandas as pd

TABLES: Mapping[str, Mapping[str, Column]] = {**MEASURED, **PROFILED}
"""Table name -> column name -> Column, in stored order."""

_PANDAS = {"category": "category", "str": "string", "bool": "bool"}


CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""In a text from a file: what moves a terminal's cursor, colours it, or turns the direction in which it is read."""


def conform(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """A new frame with exactly the columns and types of table `name`.  Raises DataError."""
    import pandas as pd

    columns = TABLES[name]
    if extra := [c for c in frame.columns if c not in columns]:
        raise DataError(f"table {name}: column {extra[0]!r} is not declared; declared are: {', '.join(columns)}")
    if missing := [c for c in columns if c not in frame.columns]:
        raise DataError(f"table {name}: column {missing[0]!r} is missing")
    out = {}
    for column, declared in columns.items():
        kind = declared.type
        values = frame[column]
        if kind in ("str", "category") and len(values) and values.isna().any():
            raise DataError(f"table {name}: column {column} has {int(values.isna().sum())} nulls: a str is never null")
        try:
            if kind == "category":
                out[column] = values.astype("string").astype("category")
            else:
                out[column] = values.astype(_PANDAS.get(kind, kind))  # type: ignore[call-overload]
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"table {name}: column {column} is not {kind}: {error}") from error
        if kind.startswith("int") and len(values) and not (out[column] == values).all():
            raise DataError(f"table {name}: column {column} does not fit {kind}")
    return pd.DataFrame(out, columns=list(columns)).reset_index(drop=True)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """One mapping a row of any frame, columns by name: what tables on a terminal and JSON are made of."""
    return [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]


def markdown() -> str:
    """The schema as the text of `docs/recording-format.md` has it."""
    parts = []
    for name, columns in TABLES.items():
        rows = [f"| `{column}` | {c.type} | {c.doc} |" for column, c in columns.items()]
        parts.append("\n".join([f"### `{name}`", "", "| column | type | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"
