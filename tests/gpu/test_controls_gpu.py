"""Controls of index_topk on a real Hopper GPU: one that lost its matrix work never runs; the honest one does as much as its base.

Skipped where there is no GPU; the counted half also where there is no ncu.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from attribution.claim import answers
from attribution.declare import load_kernel, load_variants
from attribution.measure import watch
from attribution.measure.probe import Gpu, find
from attribution.measure.worker import Options
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
"""


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


@pytest.mark.skipif(shutil.which("ncu") is None, reason="ncu is not on the PATH")
def test_the_honest_control_executes_as_many_matrix_instructions_and_loads(root: Path, tmp_path: Path) -> None:
    made = measured(root, tmp_path, ["math_only"], ("graph", "ncu"))
    assert made.manifest["measuring"]["skipped"] == []
    found = answers(made, "main", "graph").set_index("arm").loc["math_only"]
    assert found["equal_work"] == "equal"
