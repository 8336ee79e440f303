"""Controls of index_topk on a real Hopper GPU: one that lost its matrix work never runs; the honest one does as much as its base.

Skipped where there is no GPU; the counted half also where there is no ncu.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from attribution.analyze.contrast import contrast
from attribution.claim import answers
from attribution.load import load_kernel, load_variants
from attribution.measure import ncu, watch
from attribution.measure.jobfile import Options
from attribution.measure.probe import Gpu, find
from attribution.plan import Overrides, plan
from attribution.recording import Recording

GPU = find()
pytestmark = pytest.mark.skipif(not isinstance(GPU, Gpu), reason=str(GPU))
VARIANTS = """
[full]
asks = "?"
[math_only]
base = "full"
asks = "?"
flags = { REDUCE = false, FILTER = false, SELECT = false, EMIT = false }
same = ["tensor_instructions", "tma_loads"]
[broken]
base = "full"
asks = "?"
flags = { MMA = false, REDUCE = false, FILTER = false, SELECT = false, EMIT = false }
same = ["tensor_instructions", "tma_loads"]
[unwatched]
base = "full"
asks = "The broken control, of which nobody asks whether its machine code has the work?"
flags = { MMA = false, REDUCE = false, FILTER = false, SELECT = false, EMIT = false }
"""
SAME = ("tensor_instructions", "tma_loads")


def measured(root: Path, home: Path, names: list[str], scopes: tuple[str, ...]) -> Recording:
    assert isinstance(GPU, Gpu)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "kernels" / "index_topk", home / "kernels" / "index_topk", ignore=ignore)
    (home / "variants").mkdir()
    (home / "variants" / "index_topk.toml").write_text(VARIANTS, encoding="utf-8")
    kernel = load_kernel(home, "index_topk")
    variants = load_variants(home, kernel)
    over = Overrides({"q": 128, "n": 8192}, {}, {"sms": GPU.sms, "ctas": GPU.sms}, rounds=6)
    options = Options(scopes=scopes, traced_rounds=0, timeout_s=60.0)
    return watch.execute(plan(kernel, variants, names, over), kernel, variants, home / "a", lambda *_: None, options)


def test_a_control_without_matrix_instructions_is_refused_before_it_runs(root: Path, tmp_path: Path) -> None:
    made = measured(root, tmp_path, ["broken"], ("graph",))
    runs = made.table("runs").astype({"arm": str, "status": str})
    mine = runs[runs["arm"] == "broken"]
    assert set(mine["status"]) == {"skipped"}
    assert mine["reason"].str.contains("has no QGMMA in its machine code").all()
    assert set(runs.loc[runs["arm"] != "broken", "status"]) == {"ok"}
    assert answers(made, "main", "graph").set_index("arm").loc["broken", "verdict"] == "void"


@pytest.mark.skipif(bool(ncu.missing()), reason=ncu.missing())
def test_dynamic_counts_tell_the_honest_control_from_the_one_that_lost_its_work(root: Path, tmp_path: Path) -> None:
    made = measured(root, tmp_path, ["math_only", "unwatched"], ("graph", "ncu"))
    assert made.manifest["measuring"]["skipped"] == []
    assert set(made.table("runs")["status"]) == {"ok"}
    assert made.table("checks")["passed"].all()
    assert answers(made, "main", "graph").set_index("arm").loc["math_only", "equal_work"] == "equal"
    tables = [made.table(name) for name in ("runs", "times", "checks", "counters")]
    honest, broken = (
        contrast(*tables, base="full", arm=arm, stage="main", scope="graph", same=SAME)
        for arm in ("math_only", "unwatched")
    )
    assert honest.verdict != "void"
    assert broken.verdict == "void"
    assert any(r.startswith("unequal work: tensor_instructions") and r.endswith("!= 0") for r in broken.reasons)
