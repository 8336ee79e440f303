"""The table of goals of index_topk without a GPU: what is a goal met or missed, and what is only said to be missing."""

from __future__ import annotations

import json
import statistics
import subprocess
from pathlib import Path

import pytest

from bench import goals
from bench.gpu import ratios


def test_without_a_gpu_it_says_so_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(goals, "find", lambda: "no CUDA device: planted")
    assert goals.main([]) == 1
    seen = capsys.readouterr()
    assert "planted" in seen.err
    assert seen.out == ""


@pytest.mark.parametrize(("operator_ms", "met", "wins"), [(0.9, True, 2), (1.1, False, 0)])
def test_the_row_against_the_scorer(operator_ms: float, met: bool, wins: int) -> None:
    row = goals.against_scorer("Q", {"full": [operator_ms] * 2, "scorer": [1.0, 1.0]}, 1.0)
    assert (row.met, row.measured) == (met, f"{operator_ms:.3f}")
    assert f"faster in {wins} of" in row.what


def test_an_absent_scorer_is_a_row_without_a_verdict() -> None:
    row = goals.against_scorer("Q", {"full": [1.0]}, 1.0)
    assert row.met is None
    assert "deep_gemm is not installed" in row.measured


def test_an_absent_ncu_is_a_row_without_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.goals.shutil.which", lambda name: None)
    assert goals.instructions(4, 128) == goals.Row(
        "Q 4 N 128: thread-instructions a pair", "not measured: ncu is not installed", "<= 220", None
    )


def test_an_ncu_that_hangs_is_a_row_without_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.goals.shutil.which", lambda name: "sleep")
    monkeypatch.setattr(goals, "NCU_S", 0.2)
    run = subprocess.run
    monkeypatch.setattr("bench.goals.subprocess.run", lambda command, **how: run(["sleep", "5"], **how))
    row = goals.instructions(4, 128)
    assert (row.met, row.measured) == (None, "not measured: ncu took more than 0.2 s")


@pytest.mark.parametrize(("counted", "each", "met"), [("53,460", 110, True), ("112,266", 231, False)])
def test_instructions_are_divided_by_the_pairs_inside_the_bounds(
    monkeypatch: pytest.MonkeyPatch, counted: str, each: int, met: bool
) -> None:
    """4 causal rows of 123 keys have 120 + 121 + 122 + 123 pairs, not 492."""

    class Done:
        returncode = 0
        stdout = f'==PROF== x\n"0","index_main","smsp__thread_inst_executed.sum","inst","{counted}"\n'

    monkeypatch.setattr("bench.goals.shutil.which", lambda name: "ncu")
    monkeypatch.setattr("bench.goals.subprocess.run", lambda *a, **k: Done())
    row = goals.instructions(4, 123)
    assert (row.measured, row.met) == (str(each), met)


@pytest.mark.parametrize(("without_ms", "met"), [(0.998, True), (0.99, False)])
def test_what_repair_costs_when_it_has_nothing_to_do(without_ms: float, met: bool) -> None:
    times = {"full": [1.0, 1.0], "without_repair": [without_ms] * 2}
    assert goals.repair("Q", 0, times).met is met


def test_a_median_that_meets_a_goal_inside_its_interval_shows_both() -> None:
    row = goals.below("Q", [0.98 + 0.002 * i for i in range(21)], 1.005)
    assert (row.measured, row.interval, row.met) == ("1.000", "[0.990, 1.010]", True)
    assert goals.below("Q", [1.0], 1.0).interval == ""


def test_a_row_that_failed_is_no_measurement_of_an_idle_exception_path() -> None:
    row = goals.repair("Q", 3, {"full": [1.0], "without_repair": [1.0]})
    assert (row.met, row.measured) == (None, "not measured: 3 rows failed")


def test_rounds_with_a_trend_are_not_told_as_rounds_alike() -> None:
    """Planted: a step in the middle, and a slope; the same values in another order are alike."""
    step = [0.80, 0.79, 0.81] * 4 + [0.69, 0.70, 0.68] * 3
    slope = [0.8 - 0.005 * i for i in range(21)]
    alike = step[::2] + step[1::2]
    assert goals.drift(step) == "0.800 to 0.690"
    assert goals.below("Q", slope, 1.0).drift == "0.785 to 0.715"
    assert goals.drift(alike) == goals.drift([0.7] * 21) == goals.drift([0.7, 0.8]) == ""


def test_which_ratios_drift_in_the_recorded_run(root: Path) -> None:
    """What docs/index_topk.md says in words: who drifts, by how much at most, and whose time it is."""
    times = json.loads((root / "traces" / "h200-index-topk-goals.json").read_text(encoding="utf-8"))["milliseconds"]
    drifting = [shape for shape, one in times.items() if goals.drift(ratios(one, "full", "scorer"))]
    assert drifting == ["4096x16384", "512x131072", "3001x20480", "777x98304", "2048x49152"]
    moved = {
        name: [statistics.median(values[-7:]) / statistics.median(values[:7]) for values in series]
        for name, series in {
            "ratio": [ratios(times[shape], "full", "scorer") for shape in drifting],
            "scorer": [times[shape]["scorer"] for shape in drifting],
            "full": [times[shape]["full"] for shape in drifting],
        }.items()
    }
    assert 0.85 < min(moved["ratio"]) < 0.87  # by up to a seventh
    assert 1.19 < max(moved["scorer"]) < 1.21  # by up to a fifth
    assert max(moved["full"]) < 1.03
    # Every single round there meets the goal that its median meets.
    goal = {"512x131072": 1.0}
    assert all(max(ratios(times[shape], "full", "scorer")) <= goal.get(shape, 1.15) for shape in drifting)
