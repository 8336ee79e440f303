"""Faults that tests on a GPU plant into index_topk: each still applies to its source and compiles, without a GPU."""

from __future__ import annotations

from pathlib import Path

import planted_index_topk as planted
import pytest

from attribution.build import build, target
from attribution.load import load_kernel
from attribution.measure.lost_work import lost_work
from bench.pairs import errors

pytest.importorskip("cuda.bindings.nvrtc", reason='needs `pip install "attribution[cuda]"`')
FAULTS = {**planted.EXACTNESS, **planted.SANITIZER, "scores": planted.SCORES}


@pytest.mark.parametrize("name", list(FAULTS))
def test_a_fault_applies_and_compiles(root: Path, tmp_path: Path, name: str) -> None:
    fault = FAULTS[name]
    kernel = planted.planted(root, tmp_path, fault)
    assert errors(target(kernel, fault.flags).unit.text) == ""


@pytest.mark.parametrize("number", [1, 2])
def test_wrong_launches_apply_and_compile(root: Path, tmp_path: Path, number: int) -> None:
    kernel = planted.planted(root, tmp_path, planted.LAUNCHES)
    assert errors(target(kernel, {"FAULT": number}).unit.text) == ""


def test_a_control_whose_products_nobody_uses_is_refused_by_its_machine_code(root: Path, tmp_path: Path) -> None:
    opcodes = {"tensor_instructions": "QGMMA"}
    kernel, full = planted.planted(root, tmp_path, planted.WORK), build(load_kernel(root, "index_topk"), {})
    honest, broken = (build(k, planted.MATH_ONLY) for k in (load_kernel(root, "index_topk"), kernel))
    assert lost_work(full, honest, opcodes) == ""
    assert "index_main has no QGMMA in its machine code" in lost_work(full, broken, opcodes)


def test_a_fault_whose_place_is_gone_is_noticed(root: Path, tmp_path: Path) -> None:
    gone = planted.Fault((("filter.cuh", "what is not there", ""),))
    with pytest.raises(AssertionError, match="filter.cuh has 0 times"):
        planted.planted(root, tmp_path, gone)


def test_what_does_not_compile_is_noticed(root: Path, tmp_path: Path) -> None:
    kernel = planted.planted(root, tmp_path, planted.Fault((("math.cuh", planted.INSIDE, "(at >= )"),)))
    assert "expected an expression" in errors(target(kernel, {}).unit.text)
