"""Scopes as types: case 16."""

from __future__ import annotations

import pytest

from attribution.errors import DataError, InputError, MeasureError
from attribution.measure import scopes
from attribution.measure.scopes import Scope, Time

FOUR = [
    Time(1.00e6, Scope("ncu", "cold"), "main"),
    Time(0.80e6, Scope("ncu", "warm"), "main"),
    Time(0.90e6, Scope("graph", "warm"), "main"),
    Time(0.91e6, Scope("cupti", "warm"), "main"),
]
"""One kernel under four instruments."""


@pytest.mark.parametrize("verb", ["__sub__", "__add__", "__truediv__", "__lt__"])
def test_no_two_of_four_scopes_meet(verb: str) -> None:
    for a in FOUR:
        for b in FOUR:
            if a is b:
                continue
            with pytest.raises(DataError, match="two scopes"):
                getattr(a, verb)(b)


def test_within_a_scope_times_are_numbers_that_remember_it() -> None:
    scope = Scope("graph")
    whole, part = Time(10.0, scope, "operator"), Time(4.0, scope, "main")
    assert (whole - part).ns == 6.0
    assert (whole - part).scope == scope
    assert (whole - part).stage == "operator - main"
    assert whole / part == 2.5
    assert part < whole
    with pytest.raises(TypeError):
        whole - 4.0  # type: ignore[operator]


def test_a_scope_that_differs_only_in_a_policy_is_another_scope() -> None:
    with pytest.raises(DataError):
        Time(1.0, Scope("graph", "warm"), "main") - Time(1.0, Scope("graph", "cold"), "main")


def test_names_that_do_not_exist_are_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="nearest: graph"):
        Scope("grph")
    with pytest.raises(InputError, match="cache policy 'hot'"):
        Scope("graph", "hot")


def test_an_asked_scope_that_is_missing_is_an_error_and_a_default_one_a_recorded_skip() -> None:
    missing = {"ncu": "ncu is not on the PATH"}
    with pytest.raises(MeasureError, match="ncu is not on the PATH"):
        scopes.choose(["graph", "ncu"], ["graph"], missing)
    used, skips = scopes.choose([], ["event", "graph", "ncu"], missing)
    assert used == ("event", "graph")
    assert skips == (scopes.Skip("ncu", "ncu is not on the PATH"),)
