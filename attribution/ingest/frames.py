"""Frames of the declared tables, built from columns without a second conversion.

In: a table's name and its columns, each an array, a list, `Coded`, or one scalar for all rows.
Out: the frame that `tables.conform` would give, about ten times faster where most columns repeat.
Misuse: a column that is not declared, or one that is missing, is our own mistake (an assertion).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from attribution.errors import DataError
from attribution.tables import TABLES


@dataclass(frozen=True)
class Coded:
    """A column of few strings: `codes` int32 [rows] into `names`, which may repeat."""

    codes: np.ndarray
    names: Sequence[str]


def coded(values: Sequence[str]) -> Coded:
    """Number the distinct strings of a list in order of first appearance."""
    names = list(dict.fromkeys(values))
    number = dict(zip(names, range(len(names)), strict=True))
    return Coded(np.fromiter(map(number.__getitem__, values), np.int32, len(values)), names)


def table(name: str, rows: int, /, **columns: Any) -> pd.DataFrame:
    """A frame of table `name` with `rows` rows.  Raises DataError where an integer does not fit."""
    declared = TABLES[name]
    assert set(columns) == set(declared), (
        f"table {name}: {sorted(set(columns) ^ set(declared))} are not declared or missing"
    )
    out = {c: table_column(name, c, columns[c], rows) for c in declared}
    return pd.DataFrame(out, columns=list(declared), copy=False)


def empty(name: str) -> pd.DataFrame:
    """Table `name` without rows."""
    return table(name, 0, **{column: [] for column in TABLES[name]})


def concat(name: str, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Rows of several frames of one table, in order; categories are united."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return empty(name)
    if len(parts) == 1:
        return parts[0].reset_index(drop=True)
    out = {}
    for column, declared in TABLES[name].items():
        values: Any = [part[column] for part in parts]
        if declared.type == "category":
            out[column] = pd.api.types.union_categoricals([v.array for v in values])
        else:
            out[column] = pd.concat(values, ignore_index=True)
    return pd.DataFrame(out, columns=list(TABLES[name]))


def table_column(name: str, column: str, values: Any, rows: int) -> Any:
    """One column of table `name` in its declared type.  Raises DataError where an integer does not fit."""
    kind = TABLES[name][column].type
    if kind == "category":
        return _category(values, rows)
    if np.isscalar(values):
        values = [values] * rows if kind == "str" else np.full(rows, values)
    if kind == "str":
        return pd.array(_encodable(list(values)), dtype="string")
    if kind.startswith("int"):
        try:
            wide = np.asarray(values, np.int64) if len(values) else np.empty(0, np.int64)
        except OverflowError as error:
            raise DataError(f"table {name}: a value of {column} does not fit 64 bits") from error
        bounds = np.iinfo(kind)
        if len(wide) and (wide.min() < bounds.min or wide.max() > bounds.max):
            seen = wide.max() if wide.max() > bounds.max else wide.min()
            raise DataError(
                f"table {name}: {column} is {seen}, allowed are {bounds.min} to {bounds.max}; "
                "the file is damaged or of another kind"
            )
        return wide.astype(kind)
    return np.asarray(values, kind)


def _category(values: Any, rows: int) -> pd.Categorical:
    """Categories sorted, as `astype("category")` sorts them; unused and repeated ones are gone."""
    if isinstance(values, str):
        values = Coded(np.zeros(rows, np.int32), [values])
    elif not isinstance(values, Coded):
        values = coded(values)
    values = Coded(values.codes, _encodable(values.names))
    used = np.zeros(len(values.names), bool)
    used[values.codes] = True
    names = sorted({n for n, keep in zip(values.names, used, strict=True) if keep})
    place = {n: i for i, n in enumerate(names)}
    remap = np.array([place.get(n, -1) for n in values.names], np.int32)
    codes = remap[values.codes] if len(values.codes) else np.empty(0, np.int32)
    categories = pd.Index(names, dtype="string")
    return pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(categories))


def _encodable(names: Sequence[str]) -> Sequence[str]:
    """The same texts; where JSON's escapes left half a character (a lone surrogate), a ? in its place."""
    try:
        for name in names:
            name.encode()
    except UnicodeEncodeError:
        return [name.encode("utf-8", "replace").decode() for name in names]
    return names
