"""Jobs: every planned run becomes a row, wrong output voids, a stop loses nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attribution.claim import answers
from attribution.declare import Kernel, Variant
from attribution.errors import InputError, MeasureError
from attribution.load import module_of
from attribution.measure import host, job
from attribution.plan import Overrides, Plan, plan
from attribution.recording import Recording, open_recording

OVER = Overrides({"q": 6, "n": 2048}, {"K": 512, "SEGMENT_CAPACITY": 184}, {"sms": 2}, rounds=6)


def quiet(done: int, total: int, label: str) -> None:
    """No bar in tests."""


def planned(kernel: Kernel, variants: dict[str, Variant], *names: str, over: Overrides = OVER) -> Plan:
    return plan(kernel, variants, list(names), over)


@pytest.fixture(scope="module")
def recorded(
    index_topk: Kernel,
    index_topk_variants: dict[str, Variant],
    tmp_path_factory: pytest.TempPathFactory,
) -> Recording:
    path = tmp_path_factory.mktemp("job") / "a"
    asked = planned(index_topk, index_topk_variants, "score_only", "load_only")
    return job.execute(asked, index_topk, index_topk_variants, path, quiet)


def test_every_planned_run_is_a_row_with_times_and_checks(recorded: Recording) -> None:
    runs, times = recorded.table("runs"), recorded.table("times")
    assert runs["run"].tolist() == list(range(24))
    assert set(runs["status"]) == {"ok"}
    assert set(times["scope"]) == {"host-virtual"}
    assert (times.groupby("run")["stage"].nunique() >= 5).all()
    assert (times["time_ns"] > 0).all()
    checks = recorded.table("checks")
    assert set(checks["run"]) == set(runs["run"])
    assert checks["passed"].all()
    assert set(checks["when"]) == {"before", "after"}


def test_the_operator_is_the_sum_of_its_stages(recorded: Recording) -> None:
    times = recorded.table("times").astype({"stage": str})
    total = times[times["stage"] == "operator"].set_index("run")["time_ns"]
    parts = times[times["stage"] != "operator"].groupby("run")["time_ns"].sum()
    np.testing.assert_allclose(total.sort_index(), parts.sort_index())


def test_main_time_is_the_last_event_of_its_trace(recorded: Recording) -> None:
    times = recorded.table("times")
    main = times[times["stage"] == "main"].set_index("run")["time_ns"]
    last = recorded.table("events").groupby("run")["time_ns"].max()
    assert (main.sort_index() == last.sort_index()).all()


def test_rows_of_all_sms_are_the_rows_of_the_problem(recorded: Recording) -> None:
    rows = recorded.table("rows")
    assert (rows.groupby("run")["rows"].sum() == 6).all()


def test_the_answer_has_equal_work_a_null_arm_and_an_expectation(recorded: Recording) -> None:
    found = answers(recorded).set_index("arm")
    assert list(found.index) == ["null", "score_only", "load_only"]
    assert found.loc["score_only", "equal_work"] == "equal"
    assert found.loc["load_only", "verdict"] == "faster"
    assert found.loc["load_only", "expected"] == "time_ratio in [0.01, 0.2]"
    assert found.loc["null", "verdict"] in ("same", "undecided")


def test_a_control_that_lost_its_matrix_work_is_void(
    index_topk: Kernel,
    index_topk_variants: dict[str, Variant],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planted control still prints the right checksum, but skips the product in every second tile."""
    module = sys.modules[index_topk.host.__module__]
    honest = module.Run._math

    def lazy(self: Any, rows: slice, slots: Any, tile: Any, first: int) -> None:
        if self.flags["REDUCE"] or (first // 1024) % 2 == 0:
            return honest(self, rows, slots, tile, first)
        dots = self.q[rows][0, 0] @ module.FP8[tile].T
        self.fold_float += float(dots.sum())
        return None

    monkeypatch.setattr(module.Run, "_math", lazy)
    asked = planned(index_topk, index_topk_variants, "math_only")
    found = answers(job.execute(asked, index_topk, index_topk_variants, tmp_path / "a", quiet)).set_index("arm")
    assert found.loc["math_only", "verdict"] == "void"
    assert "unequal work: tensor_instructions" in found.loc["math_only", "reasons"]


def test_an_arm_with_wrong_output_is_not_timed(
    index_topk: Kernel,
    index_topk_variants: dict[str, Variant],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planted selection drops one index of one row."""
    module = sys.modules[index_topk.host.__module__]
    honest = module.Run._emit

    def drops(self: Any, row: int, keys: Any, index: Any, stage: str) -> None:
        honest(self, row, keys, index, stage)
        if self.flags["SCAN"] == "reserved" and row == 1:
            self.indices[row, 3] = -1

    monkeypatch.setattr(module.Run, "_emit", drops)
    asked = planned(index_topk, index_topk_variants, "scan_reserved")
    made = job.execute(asked, index_topk, index_topk_variants, tmp_path / "a", quiet)
    runs = made.table("runs")
    mine = runs[runs["arm"] == "scan_reserved"]
    assert set(mine["status"]) == {"skipped"}
    assert mine["reason"].str.contains("wrong output on fresh inputs").all()
    assert set(runs[runs["arm"] == "full"]["status"]) == {"ok"}
    assert answers(made).set_index("arm").loc["scan_reserved", "verdict"] == "void"


def test_output_that_goes_wrong_later_voids_the_arm(
    index_topk: Kernel,
    index_topk_variants: dict[str, Variant],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Right on the check before timing and on three timed runs, wrong from then on."""
    honest, calls = index_topk.host, [0]

    def tires(inputs: Any, shape: Any, flags: Any, knobs: Any, clock: Any) -> Any:
        out = honest(inputs, shape, flags, knobs, clock)
        calls[0] += flags["SCAN"] == "reserved"
        if flags["SCAN"] == "reserved" and calls[0] > 4:
            out.output["indices"][0, 0] = out.output["indices"][0, 1]
        return out

    object.__setattr__(index_topk, "host", tires)
    try:
        asked = planned(index_topk, index_topk_variants, "scan_reserved")
        made = job.execute(asked, index_topk, index_topk_variants, tmp_path / "a", quiet)
    finally:
        object.__setattr__(index_topk, "host", honest)
    mine = made.table("runs")[made.table("runs")["arm"] == "scan_reserved"]
    assert set(mine["status"]) == {"ok", "failed"}
    found = answers(made).set_index("arm").loc["scan_reserved"]
    assert found["verdict"] == "void"
    assert "wrong output" in found["reasons"]


def test_a_crash_of_one_arm_is_a_failed_row_and_the_rest_goes_on(
    index_topk: Kernel,
    index_topk_variants: dict[str, Variant],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = module_of(index_topk, "candidates")
    honest = module.segment_of

    def breaks(index: Any, layout: str, count: int) -> Any:
        if layout == "split":
            raise ValueError("no such segment")
        return honest(index, layout, count)

    monkeypatch.setattr(module, "segment_of", breaks)
    over = Overrides(OVER.shape, {**OVER.flags}, OVER.knobs, rounds=6)
    asked = planned(index_topk, index_topk_variants, "split", over=over)
    made = job.execute(asked, index_topk, index_topk_variants, tmp_path / "a", quiet)
    runs = made.table("runs")
    assert runs[runs["arm"] == "split"]["reason"].str.contains("no output on fresh inputs .*no such segment").all()
    assert set(runs[runs["arm"] == "full"]["status"]) == {"ok"}


def test_a_stopped_job_goes_on_and_measures_no_run_twice(
    index_topk: Kernel,
    index_topk_variants: dict[str, Variant],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, path = planned(index_topk, index_topk_variants, "score_only"), tmp_path / "a"

    def stop(done: int, total: int, label: str) -> None:
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job.execute(asked, index_topk, index_topk_variants, path, stop)
    assert not path.exists()
    with pytest.raises(InputError, match="unfinished measurement"):
        job.execute(asked, index_topk, index_topk_variants, path, quiet)
    counted = []
    honest = host.measure
    monkeypatch.setattr(host, "measure", lambda *a: counted.append(1) or honest(*a))
    made = job.execute(asked, index_topk, index_topk_variants, path, quiet, resume=True)
    assert made.table("runs")["run"].tolist() == list(range(18))
    # 11 runs were left; every arm is checked again before it goes on, and once more after its last run.
    assert len(counted) == 11 + 3 + 3
    assert open_recording(path).table("checks")["passed"].all()


def test_a_recording_is_never_overwritten_unasked_not_even_after_measuring(
    recorded: Recording, index_topk: Kernel, index_topk_variants: dict[str, Variant]
) -> None:
    asked = planned(index_topk, index_topk_variants, "score_only")
    with pytest.raises(InputError, match="never overwritten"):
        job.execute(asked, index_topk, index_topk_variants, recorded.path, quiet)


def test_a_full_disk_is_a_sentence_and_keeps_what_was_measured(
    index_topk: Kernel,
    index_topk_variants: dict[str, Variant],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from attribution import partial

    honest, calls = partial.write_parquet, [0]

    def full(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] > 20:
            raise OSError(28, "No space left on device")
        return honest(*arguments)

    asked = planned(index_topk, index_topk_variants, "score_only")
    monkeypatch.setattr(partial, "write_parquet", full)
    with pytest.raises(MeasureError, match="No space left"):
        job.execute(asked, index_topk, index_topk_variants, tmp_path / "a", quiet)
    monkeypatch.setattr(partial, "write_parquet", honest)
    made = job.execute(asked, index_topk, index_topk_variants, tmp_path / "a", quiet, resume=True)
    assert len(made.table("runs")) == 18
