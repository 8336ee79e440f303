"""Numbers and units: equal whatever they were scaled to, refused where they are ambiguous."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.errors import DataError, InputError
from attribution.ingest.units import base_unit, parse_number, to_base


@pytest.mark.parametrize(
    "stated",
    [("1,234.5", "usecond"), ("1234500", "nsecond"), ("1.2345", "msecond"), ("1234.5", "us"), ("0.0012345", "s")],
)
def test_equal_times_are_equal(stated: tuple[str, str]) -> None:
    assert to_base(*stated) == (Decimal(1_234_500), "ns")


@pytest.mark.parametrize(
    ("text", "unit", "value", "base"),
    [
        ("1.5", "Mbyte", "1500000", "byte"),
        ("2", "KiB", "2048", "byte"),
        ("196.5", "Gbyte/second", "196500000000", "byte/s"),
        ("1.5", "cycle/nsecond", "1500000000", "hz"),
        ("1.98", "Ghz", "1980000000", "hz"),
        ("3", "Kinst", "3000", "inst"),
        ("61.84", "%", "61.84", "%"),
        ("7", "register/thread", "7", "register/thread"),
    ],
)
def test_scaled_to_base(text: str, unit: str, value: str, base: str) -> None:
    assert to_base(text, unit) == (Decimal(value), base)


@pytest.mark.parametrize("unit", ["fortnight", "usecnd", "Mfoo", "byte/fortnight", "a/b/c", "/s"])
def test_unknown_unit_is_refused(unit: str) -> None:
    with pytest.raises(DataError, match="not known"):
        to_base("1.5", unit)


@pytest.mark.parametrize("text", ["1.234,5", "1,23", "12,34.5", "", "n/a", "1.2.3", "0x10", "1 234", "nan", "١٢"])
def test_not_a_number_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="not a number"):
        parse_number(text)


def test_locale_is_believed_only_when_stated() -> None:
    assert parse_number("1.234,5", decimal=",") == Decimal("1234.5")
    with pytest.raises(DataError, match="decimal=','"):
        parse_number("1.234,5")
    with pytest.raises(DataError):
        parse_number("1,234.5", decimal=",")
    with pytest.raises(InputError):
        parse_number("1", decimal=";")


@given(st.decimals(-(10**12), 10**12, places=3))
def test_grouping_changes_nothing(value: Decimal) -> None:
    assert parse_number(f"{value:,}") == value == parse_number(str(f"{value:f}"))


def test_base_units_are_fixed_points() -> None:
    for unit in ("ns", "byte", "hz", "%", "inst", "sector/request", "byte/s", ""):
        assert base_unit(unit) == (unit, 1)
