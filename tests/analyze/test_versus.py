"""Side by side: quantities are ratios of what was counted, absent ones are not zero, and the bound is the matrix twice."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import planted_gpu
import pytest

from attribution.analyze import versus
from attribution.errors import DataError, InputError
from attribution.recording import Recording

PAIRS = 64 * (8192 - 64) + 64 * 65 // 2
COUNTED = {
    "full": {"thread_instructions": 180.0 * PAIRS, "issue_slots_used": 450.0, "issue_slots": 1000.0, "eligible_warps": 700.0,
             "tensor_cycles_active": 2400.0, "sm_cycles_elapsed": 1000.0, "l2_sectors_hit": 98.0, "l2_sectors": 100.0,
             "duration": 1000.0, "dram_read_bytes": 500.0, "dram_write_bytes": 1500.0},
    "score_only": {"thread_instructions": 145.0 * PAIRS, "dram_write_bytes": 4e5},
}  # fmt: skip


def recorded(path: Path, copy: float = 4e12, rounds: int = 20) -> Recording:
    """The ladder; counters of two arms, in two launches each; the rate of a copy (NaN: absent)."""
    tables = planted_gpu.full_ladder(stages={"repair": 2e4, "gaps": 1e4}, rounds=rounds)
    runs = tables["runs"].astype({"arm": str})
    rows = [
        (int(run), metric, value / 2, launch)
        for arm, values in COUNTED.items()
        for run in runs.loc[runs["arm"] == arm, "run"].head(2)
        for metric, value in values.items()
        for launch in range(2)
    ]
    frame = pd.DataFrame(rows, columns=["run", "metric", "value", "launch"])
    rate = pd.DataFrame([(0, "copy_byte_per_s", copy)], columns=["run", "metric", "value"])
    parts = [tables["counters"], planted_gpu.counted(frame), planted_gpu.counted(rate, stage="ceiling", scope="event")]
    tables["counters"] = pd.concat([p.astype(object) for p in parts], ignore_index=True)
    return planted_gpu.recording(path, tables, planted_gpu.ladder_variants())


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded(tmp_path_factory.mktemp("versus") / "versus")


def test_quantities_are_ratios_of_what_was_counted(recording: Recording) -> None:
    assert versus.counted(recording, "full") == pytest.approx(
        {
            "thread instructions a pair": 180.0, "issue slots used": 0.45, "eligible warps a scheduler": 0.7,
            "tensor pipe active": 0.6, "L2 hit rate": 0.98, "L2 traffic": 3.2e9, "DRAM traffic": 2e9,
            "tensor pipe + issue slots": 1.05,
        }
    )  # fmt: skip


def test_what_was_not_counted_is_unknown_and_not_zero(recording: Recording) -> None:
    found = versus.counted(recording, "score_only")
    assert found["thread instructions a pair"] == pytest.approx(145.0)
    assert all(math.isnan(v) for name, v in found.items() if name != "thread instructions a pair")


def test_a_share_above_one_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: more hits than sectors, as two replay passes of one launch can count them (seen: 129 %)."""
    monkeypatch.setitem(COUNTED["full"], "l2_sectors_hit", 129.0)
    found = versus.counted(recorded(tmp_path / "above"), "full")
    assert math.isnan(found["L2 hit rate"])
    assert found["L2 traffic"] == pytest.approx(3.2e9)


def test_times_are_those_of_the_arm_with_their_interval(recording: Recording) -> None:
    (row,) = versus.side_by_side(recording, ["score_only"], None)
    assert row["main_ns"] == pytest.approx(planted_gpu.TIMES["score_only"], rel=0.01)
    assert row["main_low_ns"] < row["main_ns"] < row["main_high_ns"]
    assert row["operator_ns"] == pytest.approx(row["main_ns"] + 3e4, rel=0.01)


def test_fusing_saves_at_most_the_matrix_written_and_read_once(recording: Recording) -> None:
    bound = versus.fusing_bound(recording, "score_only", None)
    assert bound.bound_ns == pytest.approx(2 * 4e5 / 4e12 * 1e9)
    assert bound.share_low < bound.share < bound.share_high
    assert bound.share == pytest.approx(bound.bound_ns / bound.operator_ns)


@pytest.mark.parametrize(
    ("arm", "copy", "missing"),
    [("math_only", 4e12, "bytes written"), ("score_only", math.nan, "rate of a copy")],
    ids=["bytes", "rate"],
)
def test_without_bytes_or_a_rate_there_is_no_bound(tmp_path: Path, arm: str, copy: float, missing: str) -> None:
    with pytest.raises(DataError, match=missing):
        versus.fusing_bound(recorded(tmp_path / "lacks", copy), arm, None)


def test_an_arm_that_is_not_there_is_named(recording: Recording) -> None:
    with pytest.raises(InputError, match="score_onyl.*nearest: score_only"):
        versus.counted(recording, "score_onyl")


def test_the_verb_prints_what_json_has_and_draws(recording: Recording, tmp_path: Path, attr: Callable) -> None:
    figure = tmp_path / "f.svg"
    options = [recording.path, "full", "score_only", "--unfused", "score_only"]
    printed = attr("versus", *options, "--plot", figure).out
    held = json.loads(attr("versus", *options, "--json").out)
    assert "180" in printed
    assert "45.0 %" in printed
    assert f"{100 * held['bound']['share']:.2f} %" in printed
    assert [s["rung"] for s in held["ladders"]["full"]][-1] == "full"
    assert "score_only" not in held["ladders"]
    drawn = figure.read_text(encoding="utf-8")
    assert drawn.startswith("<?xml")
    refused = attr("versus", recording.path, "full", "full")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_the_null_arm_has_no_ladder(attr: Callable) -> None:
    done = attr("versus", "host-math-only", "full", "null", "--json")
    assert (done.code, list(json.loads(done.out)["ladders"])) == (0, ["full"]), done.err


def test_one_round_is_shown_without_an_interval(tmp_path: Path, attr: Callable) -> None:
    once = recorded(tmp_path / "once", rounds=1)
    printed = attr("versus", once.path, "full", "score_only", "--plot", tmp_path / "f.svg")
    assert printed.code == 0
    assert "nan" not in printed.out
    assert (tmp_path / "f.svg").exists()
