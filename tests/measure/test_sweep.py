"""Many points in one recording: numbered through, resumed where it stopped, and a fault stays at its point."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_ncu import REPORT, fake_ncu

from attribution.analyze.contrast import contrasts
from attribution.declare import Kernel, Variant
from attribution.errors import DataError, InputError, MeasureError
from attribution.measure import points, sweep
from attribution.measure.jobfile import Options
from attribution.plan import Overrides, Plan, plan
from attribution.recording import Recording, open_recording

FAKE = (sys.executable, str(Path(__file__).with_name("fake_sweep.py")))
ROUNDS, ARMS = 4, 3


def plans(hello: Kernel, variants: dict[str, Variant], rows: tuple[int, ...] = (8, 16)) -> list[Plan]:
    return [
        plan(hello, variants, ["scalar"], Overrides({"rows": r, "columns": 512}, {}, {}, rounds=ROUNDS)) for r in rows
    ]


def on_gpu(
    hello: Kernel,
    variants: dict[str, Variant],
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str = ":",
    scopes: tuple[str, ...] = ("graph",),
    **more: Any,
) -> Recording:
    monkeypatch.setenv("FAKE", fault)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("POINTS", "2")
    options = Options(scopes=scopes, traced_rounds=0, timeout_s=30.0)
    asked = plans(hello, variants)
    return sweep.on_gpu(
        asked, hello, variants, path, lambda *_: None, options, {}, {"note": "kept"}, command=FAKE, **more
    )


def test_points_are_one_recording_with_a_contrast_each(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = on_gpu(hello, variants, tmp_path / "a", monkeypatch)
    runs = made.table("runs")
    assert runs["run"].tolist() == list(range(2 * ROUNDS * ARMS))
    assert runs["shape"].astype(str).unique().tolist() == ["rows=8,columns=512", "rows=16,columns=512"]
    assert made.manifest["points"][1] == {"shape": {"rows": 16, "columns": 512}, "distribution": "integers"}
    assert made.manifest["note"] == "kept"
    found = contrasts(*(made.table(n) for n in ("runs", "times", "checks", "counters")), stage="operator")
    scalar = found[found["arm"] == "scalar"]
    assert scalar["shape"].tolist() == ["rows=8,columns=512", "rows=16,columns=512"]
    assert scalar["time_ratio"].tolist() == pytest.approx([1.05, 1.05], abs=1e-3)
    assert set(scalar["pairs"]) == {ROUNDS}


@pytest.mark.parametrize("fault", ["die", "lost", "wrong"])
def test_a_fault_stays_at_its_point(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    made = on_gpu(hello, variants, tmp_path / "a", monkeypatch, f"scalar:{fault}")
    runs = made.table("runs")
    bad = runs[runs["status"] != "ok"]
    assert set(bad["arm"].astype(str)) == {"scalar"}
    assert set(bad["shape"].astype(str)) == {"rows=8,columns=512"}
    assert (bad["reason"] != "").all()
    assert len(runs) == 2 * ROUNDS * ARMS
    assert len(made.manifest["measuring"]["lost"]) == (fault != "wrong")


def test_under_ncu_one_worker_goes_through_all_points_and_each_counter_stands_at_its_own(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ncu_report")
    fake_ncu(tmp_path / "bin", monkeypatch, str(REPORT))
    made = on_gpu(hello, variants, tmp_path / "a", monkeypatch, scopes=("graph", "ncu"))
    assert made.manifest["measuring"]["skipped"] == []
    counters = made.table("counters").astype({"scope": str}).query("scope == 'ncu'")
    runs = made.table("runs").astype({"arm": str, "shape": str}).set_index("run")
    profiled = runs.loc[sorted(counters["run"].unique()), ["arm", "shape"]]
    assert profiled.to_numpy().tolist() == [["vector", "rows=8,columns=512"], ["scalar", "rows=16,columns=512"]]
    assert len(runs) == 2 * ROUNDS * ARMS + 2


def test_a_sweep_that_ncu_could_not_profile_keeps_its_times_and_fails_every_point(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ncu(tmp_path / "bin", monkeypatch, "", "==WARNING== No kernels were profiled.")
    made = on_gpu(hello, variants, tmp_path / "a", monkeypatch, scopes=("graph", "ncu"))
    runs = made.table("runs").astype({"arm": str, "shape": str, "status": str})
    assert runs["status"].tolist() == ["ok"] * 2 * ROUNDS * ARMS + ["failed"] * 4
    assert runs.loc[runs["status"] == "failed", "shape"].nunique() == 2
    assert made.manifest["measuring"]["skipped"][0]["scope"] == "ncu"


def test_a_worker_that_cannot_measure_says_why(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MeasureError, match="this GPU is too old"):
        on_gpu(hello, variants, tmp_path / "a", monkeypatch, "scalar:refuse")


def test_other_arms_or_rounds_are_no_sweep(hello: Kernel, variants: dict[str, Variant]) -> None:
    longer = plan(hello, variants, ["scalar"], Overrides({"rows": 8, "columns": 512}, {}, {}, rounds=5))
    with pytest.raises(InputError, match="a sweep has the same ones at every point"):
        points.points(None, [*plans(hello, variants), longer])  # type: ignore[arg-type]


def test_a_stopped_sweep_goes_on_where_it_stopped(hello: Kernel, variants: dict[str, Variant], tmp_path: Path) -> None:
    path, asked = tmp_path / "a", plans(hello, variants, (4, 6))
    seen: list[str] = []

    def stop(done: int, total: int, label: str) -> None:
        seen.append(label)
        if done == ROUNDS * ARMS + 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep.on_host(asked, hello, variants, path, stop, {}, {})
    assert not path.exists()
    with pytest.raises(DataError, match="was started with another plan"):
        sweep.on_host(plans(hello, variants, (4, 8)), hello, variants, path, lambda *_: None, {}, {}, resume=True)
    again: list[int] = []
    sweep.on_host(asked, hello, variants, path, lambda done, *_: again.append(done), {}, {}, resume=True)
    runs = open_recording(path).table("runs")
    assert runs["run"].tolist() == list(range(2 * ROUNDS * ARMS))
    assert set(runs["status"]) == {"ok"}
    assert any(label.startswith("point 2, integers ") for label in seen)
