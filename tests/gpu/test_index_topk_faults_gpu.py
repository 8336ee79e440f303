"""Faults planted into index_topk on a real Hopper GPU: each is caught, and launches that go wrong end as failed rows.

Skipped where there is none; counted work also where there is no ncu.  The faults: tests/planted_index_topk.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import exact_index_topk as exact
import planted_index_topk as planted
import pytest

from attribution.claim import answers
from attribution.declare import Kernel, load_variants
from attribution.measure import watch
from attribution.measure.jobfile import Options
from attribution.measure.probe import Gpu, find
from attribution.plan import Overrides, plan
from attribution.recording import Recording

GPU = find()
pytestmark = pytest.mark.skipif(not isinstance(GPU, Gpu), reason=str(GPU))


def inputs_of(fault: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Inputs and knobs on which a fault must show."""
    if fault == "candidate_of_a_full_segment_dropped":
        return exact.hot_warp(exact.normal(8, 6400, 22)), {"ctas": 1}
    if fault == "failed_rows_not_repaired":
        return exact.hot_warp(exact.normal(16, 32768, 21)), {"ctas": 1}
    if fault.startswith("row_"):  # nearly every key is selected, and rows begin and end anywhere in a tile
        x = exact.normal(64, 4096, 24)
        x["k_start"] += x["k_start"].new_tensor(list(range(64)))
        x["k_end"] = x["k_start"] + 2060
        return x, {}
    return exact.normal(48, 16384, 25), {"ctas": 2}


@pytest.mark.parametrize("fault", list(planted.EXACTNESS))
def test_a_planted_fault_is_not_exact(root: Path, tmp_path: Path, fault: str) -> None:
    what, (inputs, knobs) = planted.EXACTNESS[fault], inputs_of(fault)
    assert exact.solve(root, inputs, knobs, **what.flags).wrong == []
    planted.planted(root, tmp_path, what)
    assert exact.solve(root, inputs, knobs, under=tmp_path, **what.flags).wrong != []


def measured(kernel: Kernel, home: Path, variants: str, names: list[str], scopes: tuple[str, ...]) -> Recording:
    assert isinstance(GPU, Gpu)
    (home / "variants").mkdir()
    (home / "variants" / "index_topk.toml").write_text(variants, encoding="utf-8")
    known = load_variants(home, kernel)
    over = Overrides({"q": 128, "n": 8192}, {}, {"sms": GPU.sms, "ctas": GPU.sms}, rounds=4)
    options = Options(scopes=scopes, traced_rounds=0, timeout_s=5.0)
    return watch.execute(plan(kernel, known, names, over), kernel, known, home / "a", lambda *_: None, options)


CONTROL = """
[full]
asks = "?"
[math_only]
base = "full"
asks = "?"
flags = { REDUCE = false, FILTER = false, SELECT = false, EMIT = false }
same = ["tensor_instructions", "tma_loads"]
"""


def test_a_control_whose_products_nobody_uses_never_runs(root: Path, tmp_path: Path) -> None:
    """The compiler has removed them, although they are volatile assembly: its machine code says so."""
    kernel = planted.planted(root, tmp_path, planted.WORK["products_nobody_uses"])
    made = measured(kernel, tmp_path, CONTROL, ["math_only"], ("graph",))
    runs = made.table("runs").astype({"arm": str, "status": str})
    mine = runs[runs["arm"] == "math_only"]
    assert set(mine["status"]) == {"skipped"}
    assert mine["reason"].str.contains("has no QGMMA in its machine code").all()
    assert answers(made, "main", "graph").set_index("arm").loc["math_only", "verdict"] == "void"


@pytest.mark.skipif(shutil.which("ncu") is None, reason="ncu is not on the PATH")
def test_a_control_that_executes_less_is_void(root: Path, tmp_path: Path) -> None:
    """Its machine code still has matrix instructions: only their dynamic count shows that a quarter is missing."""
    kernel = planted.planted(root, tmp_path, planted.WORK["a_quarter_of_the_products"])
    made = measured(kernel, tmp_path, CONTROL, ["math_only"], ("graph", "ncu"))
    assert made.manifest["measuring"]["skipped"] == []
    found = answers(made, "main", "graph").set_index("arm").loc["math_only"]
    assert (found["verdict"], found["equal_work"]) == ("void", "unequal")


LAUNCHES = """
[full]
asks = "?"
[address]
base = "full"
asks = "?"
flags = { FAULT = 1 }
[deadlock]
base = "full"
asks = "?"
flags = { FAULT = 2 }
"""


def test_a_deadlock_and_an_illegal_address_are_failed_rows_and_the_rest_runs(root: Path, tmp_path: Path) -> None:
    kernel = planted.planted(root, tmp_path, planted.LAUNCHES)
    made = measured(kernel, tmp_path, LAUNCHES, ["address", "deadlock"], ("graph",))
    runs = made.table("runs").astype({"arm": str, "status": str})
    failed = runs[runs["status"] == "failed"].set_index("arm")["reason"]
    assert set(failed.index) == {"address", "deadlock"}
    assert "illegal" in failed["address"]
    assert "hang: no progress" in failed["deadlock"]
    assert set(runs.loc[runs["arm"].isin(["full", "null"]), "status"]) == {"ok"}
