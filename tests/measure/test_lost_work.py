"""A control that lost its matrix work is refused by its machine code alone, on real builds of index_topk."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attribution.build import Build, build
from attribution.declare import Kernel, Variant
from attribution.load import load_kernel
from attribution.measure.lost_work import lost_work, opcodes_of

METRICS = {
    "tensor_instructions": "sass__inst_executed_per_opcode[QGMMA]",
    "tma_loads": "sass__inst_executed_per_opcode[UTMALDG]",
    "dram_read_bytes": "dram__bytes_read.sum",
}


def test_only_counters_of_one_opcode_can_be_seen_in_machine_code() -> None:
    same = ["tensor_instructions", "dram_read_bytes", "ctas"]
    assert opcodes_of(same, METRICS) == {"tensor_instructions": "QGMMA"}


def built(**opcodes: int) -> Any:
    return SimpleNamespace(entries=[SimpleNamespace(name="main", opcodes=opcodes)])


def test_fewer_are_allowed_and_none_is_not() -> None:
    opcodes = {"tensor_instructions": "QGMMA"}
    assert lost_work(built(QGMMA=16), built(QGMMA=8), opcodes) == ""
    assert "main has no QGMMA in its machine code where its base has 16" in lost_work(built(QGMMA=16), built(), opcodes)
    assert lost_work(built(), built(), opcodes) == ""
    other = SimpleNamespace(entries=[SimpleNamespace(name="another", opcodes={})])
    assert lost_work(built(QGMMA=16), other, opcodes) == ""  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def builds(index_topk: Kernel, index_topk_variants: dict[str, Variant]) -> dict[str, Build]:
    pytest.importorskip("cuda.core")
    flags = {
        name: index_topk.resolve_flags(index_topk_variants[name].flags) for name in ("full", "math_only", "load_only")
    }
    return {name: build(index_topk, mine) for name, mine in flags.items()}


def test_math_only_keeps_what_load_only_has_not(builds: dict[str, Build]) -> None:
    """load_only stands in for a control whose products nobody uses: their instructions are not there."""
    opcodes = opcodes_of(["tensor_instructions", "tma_loads"], METRICS)
    assert lost_work(builds["full"], builds["math_only"], opcodes) == ""
    assert "index_main has no QGMMA" in lost_work(builds["full"], builds["load_only"], opcodes)


def test_a_control_that_uses_no_product_is_refused_before_it_runs(
    builds: dict[str, Build], index_topk: Kernel, index_topk_variants: dict[str, Variant], root: Path, tmp_path: Path
) -> None:
    """Planted: math_only whose accumulators go into no checksum.  The compiler then leaves the products out, all of them."""
    shutil.copytree(root / "kernels", tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    steps = tmp_path / "kernels" / "index_topk" / "steps.cuh"
    used = re.compile(r"(for \(int part = 0; part < \d+; part \+= [^)]*\)) fold \+= [^;]*;")
    text, count = used.subn(r"\1 {}", steps.read_text(encoding="utf-8"))
    assert count == 2
    steps.write_text(text, encoding="utf-8")
    flags = index_topk.resolve_flags(index_topk_variants["math_only"].flags)
    broken = build(load_kernel(tmp_path, "index_topk"), flags)
    assert broken.entry("index_main").opcodes["UTMALDG"] == builds["math_only"].entry("index_main").opcodes["UTMALDG"]
    opcodes = opcodes_of(["tensor_instructions", "tma_loads"], METRICS)
    assert "index_main has no QGMMA in its machine code" in lost_work(builds["full"], broken, opcodes)
