"""Declarations: flags, axes and events say what they allow, and refuse the rest with a sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny import tiny

from attribution.declare import Axis, Check, Event, Flag, Kernel
from attribution.declared import check_declared
from attribution.errors import InputError

SHAPE = {"n": Axis(64, "elements", least=1, multiple=32)}
KNOBS = {"sms": Axis(4, "SMs"), "ctas": Axis(2, "CTAs", times="sms")}


def test_a_default_can_follow_another_axis(tmp_path: Path) -> None:
    kernel = tiny(tmp_path, shape=SHAPE, knobs=KNOBS)
    assert kernel.resolve_axes("knobs", {}) == {"sms": 4, "ctas": 8}
    assert kernel.resolve_axes("knobs", {"sms": 10}) == {"sms": 10, "ctas": 20}
    assert kernel.resolve_axes("knobs", {"sms": 10, "ctas": 3}) == {"sms": 10, "ctas": 3}


def test_shapes_say_what_is_allowed(tmp_path: Path) -> None:
    kernel = tiny(tmp_path, shape=SHAPE, knobs=KNOBS)
    with pytest.raises(InputError, match=r"n = 33: allowed is an integer >= 1 and a multiple of 32"):
        kernel.resolve_axes("shape", {"n": 33})
    with pytest.raises(InputError, match=r"no shape m"):
        kernel.resolve_axes("shape", {"m": 32})


def test_a_size_has_another_default_on_a_gpu_where_it_says_so(tmp_path: Path, index_topk: Kernel) -> None:
    assert index_topk.gpu_shape() == {"q": 4096, "n": 131072}
    assert index_topk.resolve_axes("shape", {}) == {"q": 144, "n": 8192}
    kernel = tiny(tmp_path, shape={"n": Axis(64, "elements", gpu=4096), "m": Axis(8, "others")}, knobs=KNOBS)
    assert kernel.gpu_shape() == {"n": 4096}
    with pytest.raises(
        InputError, match="kernel tiny: on a GPU n = 33: allowed is an integer >= 1 and a multiple of 32"
    ):
        check_declared(tiny(tmp_path, shape={"n": replace(SHAPE["n"], gpu=33)}, knobs=KNOBS))
    with pytest.raises(InputError, match="kernel tiny: gpu of knob ctas is 2: must be left out"):
        check_declared(tiny(tmp_path, shape=SHAPE, knobs={**KNOBS, "ctas": replace(KNOBS["ctas"], gpu=2)}))


def test_an_event_of_an_undeclared_role_is_refused(index_topk: Kernel) -> None:
    with pytest.raises(InputError, match="event load has role dma"):
        check_declared(replace(index_topk, events=(Event("load", "dma"),)))
    with pytest.raises(InputError, match="events are not unique"):
        check_declared(replace(index_topk, events=(Event("load", "tma"), Event("load", "math"))))


def test_free_integers_are_not_negative() -> None:
    assert Flag(0, "cycles").check("DELAY", 7) == 7
    with pytest.raises(InputError, match="integer >= 0"):
        Flag(0, "cycles").check("DELAY", -1)
    with pytest.raises(InputError, match="integer >= 0"):
        Flag(0, "cycles").check("DELAY", "7")
    assert Axis(1, "n").check("n", 1) == 1


def test_an_axis_has_a_greatest_value() -> None:
    assert Axis(1, "n", most=8).check("n", 8) == 8
    with pytest.raises(InputError, match="n = 9: allowed is an integer >= 1 and <= 8"):
        Axis(1, "n", most=8).check("n", 9)
    assert Axis(1, "n").check("n", 2**31 - 1) == 2**31 - 1
    with pytest.raises(InputError, match="<= 2147483647"):
        Axis(1, "n").check("n", 2**31)


def test_a_check_of_rows_says_how_many_are_wrong_and_which_is_the_first() -> None:
    assert Check.of_rows("count", np.array([True, True])) == Check("count", True, "all 2 rows")
    assert Check.of_rows("count", np.array([True, False, False])) == Check("count", False, "2 of 3 rows wrong, first 1")
