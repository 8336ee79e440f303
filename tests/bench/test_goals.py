"""The table of goals of index_topk without a GPU: what is a goal met or missed, and what is only said to be missing."""

from __future__ import annotations

import pytest

from bench import goals


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
