"""Faults planted into index_topk on a real Hopper GPU: none is exact, and launches that go wrong end as failed rows.

Skipped where there is none.  The faults: tests/planted_index_topk.py.  Controls that lose their work: test_controls_gpu.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import exact_index_topk as exact
import planted_index_topk as planted
import pytest

from attribution.declare import Kernel
from attribution.load import load_variants
from attribution.measure import watch
from attribution.measure.jobfile import Options
from attribution.measure.probe import Gpu, find
from attribution.plan import Overrides, plan
from attribution.recording import Recording
from bench.gpu import normal

GPU = find()
pytestmark = pytest.mark.skipif(not isinstance(GPU, Gpu), reason=str(GPU))


def inputs_of(fault: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Inputs and knobs on which a fault must show."""
    if fault == "candidate_of_a_full_segment_dropped":
        return exact.hot_warp(normal(8, 6400, 22)), {"ctas": 1}
    if fault == "failed_rows_not_repaired":
        return exact.hot_warp(normal(16, 32768, 21)), {"ctas": 1}
    if fault.startswith("row_"):  # nearly every key is selected, and rows begin and end anywhere in a tile
        x = normal(64, 4096, 24)
        x["k_start"] += x["k_start"].new_tensor(list(range(64)))
        x["k_end"] = x["k_start"] + 2060
        return x, {}
    if fault == "scales_given_back_before_they_are_read":  # every SM loaded by TopK
        return normal(6000, 8192, 9), {}
    return normal(48, 16384, 25), {"ctas": 2}


@pytest.fixture(scope="module", autouse=True)
def compiled(root: Path) -> None:
    exact.compile_all(root, [fault.flags for fault in planted.EXACTNESS.values()])


@pytest.mark.parametrize("fault", list(planted.EXACTNESS))
def test_a_planted_fault_is_not_exact(root: Path, tmp_path: Path, fault: str) -> None:
    what, (inputs, knobs) = planted.EXACTNESS[fault], inputs_of(fault)
    assert exact.solve(root, inputs, knobs, **what.flags).wrong == []
    planted.planted(root, tmp_path, what)
    assert exact.solve(root, inputs, knobs, under=tmp_path, **what.flags).wrong != []


def measured(kernel: Kernel, home: Path, variants: str, name: str, timeout_s: float) -> Recording:
    assert isinstance(GPU, Gpu)
    (home / "variants").mkdir()
    (home / "variants" / "index_topk.toml").write_text(variants, encoding="utf-8")
    known = load_variants(home, kernel)
    over = Overrides({"q": 64, "n": 4096}, {}, {"sms": GPU.sms, "ctas": GPU.sms}, rounds=2)
    options = Options(scopes=("event",), traced_rounds=0, timeout_s=timeout_s)
    return watch.execute(plan(kernel, known, [name], over), kernel, known, home / "a", lambda *_: None, options)


VARIANTS = """
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


@pytest.mark.parametrize(
    ("name", "words", "timeout_s"), [("address", "illegal", 30.0), ("deadlock", "hang: no progress", 5.0)]
)
def test_a_launch_that_goes_wrong_is_a_failed_row_and_the_rest_runs(
    root: Path, tmp_path: Path, name: str, words: str, timeout_s: float
) -> None:
    made = measured(planted.planted(root, tmp_path, planted.LAUNCHES), tmp_path, VARIANTS, name, timeout_s)
    runs = made.table("runs").astype({"arm": str, "status": str})
    failed = runs[runs["status"] == "failed"].set_index("arm")["reason"]
    assert set(failed.index) == {name}
    assert words in failed[name]
    assert set(runs.loc[runs["arm"].isin(["full", "null"]), "status"]) == {"ok"}
