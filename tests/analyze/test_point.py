"""One point of a sweep answers like a recording of its own, and points are never mixed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import planted_gpu
import pytest

from attribution.analyze.ladder import ladder
from attribution.analyze.point import at, names
from attribution.errors import InputError
from attribution.recording import Recording, write_tables

TABLES = ("runs", "times", "counters", "checks")


def swept(path: Path) -> Recording:
    """The ladder at q = 64, and at q = 128 twice as long."""
    first = planted_gpu.full_ladder()
    second = planted_gpu.measured(
        {"full": {arm: 2 * ns for arm, ns in [*planted_gpu.TIMES.items(), ("null", 1e6)]}}, seed=1
    )
    second["runs"]["shape"] = "q=128,n=8192"
    last = int(first["runs"]["run"].max()) + 1
    both = {
        name: pd.concat(
            [first[name].astype(object), second[name].assign(run=second[name]["run"] + last).astype(object)]
        )
        for name in first
    }
    alone = planted_gpu.recording(path / "alone", first, planted_gpu.ladder_variants())
    facts = {key: alone.manifest[key] for key in ("machine", "kernels", "variants", "plan")}
    points = [{"shape": {"q": q, "n": 8192}, "distribution": "normal"} for q in (64, 128)]
    return write_tables(path / "sweep", "run", both, {**facts, "points": points})


def test_each_point_answers_for_itself(tmp_path: Path) -> None:
    sweep = swept(tmp_path)
    assert names(sweep) == ["q=64,n=8192", "q=128,n=8192"]
    for name, factor in zip(names(sweep), (1, 2), strict=True):
        point = at(sweep, name)
        assert set(point.table("runs")["shape"].astype(str)) == {name}
        assert set(point.table("times")["run"]) == set(point.table("runs")["run"])
        assert point.manifest["plan"]["shape"]["q"] == 64 * factor
        found = ladder({t: point.table(t) for t in TABLES}, point.manifest["variants"], "full")
        assert found["time_ns"].iloc[-1] == pytest.approx(factor * 1e6, rel=0.01)


def test_a_sweep_must_be_asked_at_a_point_and_one_point_need_not(tmp_path: Path) -> None:
    sweep = swept(tmp_path)
    with pytest.raises(InputError, match=r"holds 2 points; choose one with --point: q=64,n=8192; q=128,n=8192"):
        at(sweep, None)
    with pytest.raises(InputError, match=r"--point q=1: sweep has q=64,n=8192; q=128,n=8192"):
        at(sweep, "q=1")
    alone = planted_gpu.recording(tmp_path / "one", planted_gpu.full_ladder(), planted_gpu.ladder_variants())
    assert at(alone, None) is alone
    assert names(alone) == ["q=64,n=8192"]


def test_sizes_in_another_order_are_the_same_point(tmp_path: Path) -> None:
    """A manifest that was made of a stopped measurement names sizes by the alphabet, its runs as the kernel does."""
    sweep = swept(tmp_path)
    points = [{"shape": {"n": 8192, "q": q}, "distribution": "normal"} for q in (64, 128)]
    turned = Recording(sweep.path, {**sweep.manifest, "points": points})
    for name in ("n=8192,q=128", "q=128,n=8192"):
        assert set(at(turned, name).table("runs")["shape"].astype(str)) == {"q=128,n=8192"}
        assert not at(turned, name).table("times").empty


def test_distributions_name_points_where_shapes_do_not(tmp_path: Path) -> None:
    sweep = swept(tmp_path)
    points = [{"shape": {"q": 64, "n": 8192}, "distribution": name} for name in ("normal", "ties")]
    assert names(Recording(sweep.path, {**sweep.manifest, "points": points})) == ["normal", "ties"]
    more = [*points, {"shape": {"q": 8, "n": 8192}, "distribution": "ties"}]
    assert names(Recording(sweep.path, {**sweep.manifest, "points": more})) == [
        "q=64,n=8192 normal", "q=64,n=8192 ties", "q=8,n=8192 ties",
    ]  # fmt: skip
