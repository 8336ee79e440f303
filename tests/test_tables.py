"""The schema and its document say the same."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from attribution.errors import DataError
from attribution.tables import TABLES, conform, markdown

DOCUMENT = Path(__file__).parents[1] / "docs" / "recording-format.md"
MARK = "<!-- generated from attribution/tables -->\n\n"


def test_the_document_is_what_the_schema_generates() -> None:
    assert DOCUMENT.read_text(encoding="utf-8").split(MARK)[1] == markdown()


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_known_types_and_an_empty_frame_conforms(name: str) -> None:
    known = {"int8", "int16", "int32", "int64", "float64", "bool", "str", "category"}
    assert {c.type for c in TABLES[name].values()} <= known
    assert all(c.doc for c in TABLES[name].values())
    assert list(conform(name, pd.DataFrame({c: [] for c in TABLES[name]})).columns) == list(TABLES[name])


def test_numbers_that_do_not_fit_are_refused_not_wrapped() -> None:
    row = {"run": [1], "cta": [2], "sm": [40000], "rows": [3]}
    with pytest.raises(DataError, match="does not fit int16|is not int16"):
        conform("rows", pd.DataFrame(row))


def test_columns_come_out_in_declared_order_with_declared_types() -> None:
    frame = conform("rows", pd.DataFrame({"rows": [3.0], "sm": [4], "cta": [2], "run": [1]}))
    assert list(frame.columns) == ["run", "cta", "sm", "rows"]
    assert frame.dtypes.astype(str).tolist() == ["int32", "int32", "int16", "int32"]
