"""Which limit fails, how often, and what that costs: planted rows, planted runs, published totals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import planted_gpu
import pytest
from scipy import stats

from attribution.analyze import capacity
from attribution.errors import DataError
from attribution.load import shipped_root
from attribution.recording import open_recording
from attribution.tables import conform

PUBLISHED = Path(__file__).parents[1] / "data" / "published"


def test_causes_of_single_rows() -> None:
    counts = np.array([[700, 700], [737, 100], [800, 800], [400, 400], [10, 10], [1000, 100]])
    valid = np.array([9000, 9000, 9000, 9000, 20, 9000])
    found = capacity.causes(counts, capacity=736, spill=0, k=1024, valid=valid)
    assert list(found) == ["fits", "underflow", "row", "underflow", "fits", "segment"]
    assert list(capacity.causes(counts, 736, 264, 1024, valid))[5] == "fits"
    # As many as all segments hold do fit the row; one more does not.
    full = np.array([[740, 732], [740, 733]])
    assert list(capacity.causes(full, 736, 0, 1024, valid[:2])) == ["segment", "row"]


def test_published_overflow_rows_and_their_cost() -> None:
    rows = pd.read_csv(PUBLISHED / "overflow_rows.csv").set_index("cause")["rows"]
    schemes = pd.read_csv(PUBLISHED / "overflow_schemes.csv").set_index("scheme")
    # 5,888 entries in 8 segments: rebuild rows of each cause and let the classifier find them.
    kinds = {"segment": [737, 100, 500, 500, 500, 500, 500, 500], "row": [800] * 8, "underflow": [1] * 8}
    many = [rows["segment_overflow_total_within_capacity"], rows["row_total_over_capacity"], rows["fewer_than_k"]]
    counts = np.repeat(np.array(list(kinds.values())), many, axis=0)
    found = capacity.causes(counts, 736, 0, 2048, np.full(len(counts), 163840))
    assert dict(zip(*np.unique(found, return_counts=True), strict=True)) == {"segment": 449, "row": 95}
    assert len(found) == schemes.loc["discard_and_recompute", "rows_recomputed"]
    cost = capacity.cost_per_failure(
        20 * schemes.loc["discard_and_recompute", "complete_ms"] * 1e6,
        20 * schemes.loc["keep_and_merge", "complete_ms"] * 1e6,
        len(found),
    )
    assert cost == pytest.approx(62e3, rel=0.01)
    with pytest.raises(DataError, match="no row failed"):
        capacity.cost_per_failure(1, 1, 0)


def planted(cost_ns: float = 5e4, rounds: int = 20, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Runs of which every other one has 4 failing rows; repair takes 2e4 ns, and `cost_ns` a failing row."""
    tables = planted_gpu.measured(
        {"full": {"full": 1e6, "null": 1e6}}, rounds=rounds, seed=seed, stages={"repair": 2e4, "gaps": 1e3}
    )
    runs = tables["runs"]
    fails = np.where(runs["round"] % 2 == 0, 4, 0)
    rows = [
        (run, limit, n if limit == "segment" else 0, 64)
        for run, n in zip(runs["run"], fails, strict=True)
        for limit in capacity.CAUSES[1:]
    ]
    tables["capacity"] = conform("capacity", pd.DataFrame(rows, columns=["run", "limit", "failures", "of"]))
    times = tables["times"]
    extra = dict(zip(runs["run"], fails * cost_ns, strict=True))
    for stage in ("repair", "operator"):
        mine = times["stage"] == stage
        times.loc[mine, "time_ns"] += times.loc[mine, "run"].map(extra).to_numpy()
    counts = pd.DataFrame({"run": runs["run"], "metric": "launches", "value": 5.0})
    tables["counters"] = pd.concat([tables["counters"], planted_gpu.counted(counts, stage="repair")], ignore_index=True)
    return tables


def test_rates_count_equal_inputs_once() -> None:
    tables = planted()
    found = capacity.failures(tables["runs"], tables["capacity"]).set_index(["arm", "limit"])
    assert found.loc[("full", "segment"), ["failures", "of", "seeds"]].tolist() == [40, 20 * 64, 20]
    assert found.loc[("full", "segment"), "rate_low"] < 40 / 1280 < found.loc[("full", "segment"), "rate_high"]
    none = found.loc[("full", "underflow")]
    assert (none["rate"], none["rate_low"]) == (0, 0)
    assert none["rate_high"] == pytest.approx(3.69 / 1280, rel=0.01)


@pytest.mark.parametrize(("count", "total"), [(0, 5), (1, 5), (5, 5), (40, 1280)])
def test_a_rate_has_the_exact_interval(count: int, total: int) -> None:
    runs = planted(rounds=1)["runs"].iloc[:1]
    rows = pd.DataFrame([(int(runs["run"].iloc[0]), "row", count, total)], columns=["run", "limit", "failures", "of"])
    (found,) = capacity.failures(runs, rows).to_dict("records")
    exact = stats.binomtest(count, total).proportion_ci(method="exact")
    assert (found["rate"], found["rate_low"], found["rate_high"]) == pytest.approx((count / total, *exact))


def test_of_no_rows_there_is_no_rate() -> None:
    runs = planted(rounds=1)["runs"].iloc[:1]
    rows = pd.DataFrame([(int(runs["run"].iloc[0]), "row", 0, 0)], columns=["run", "limit", "failures", "of"])
    (found,) = capacity.failures(runs, rows).to_dict("records")
    assert np.isnan(found["rate"])
    assert (found["rate_low"], found["rate_high"]) == (0.0, 1.0)


def test_questions_and_sampling_seeds_are_rows_of_their_own() -> None:
    """Each with rows of its own number, which no other's number stands in for."""
    runs = planted(rounds=1)["runs"].iloc[:1]
    all_runs = pd.concat(
        [
            runs.assign(run=number, question=question, knobs=f'{{"sample_seed": {seed}}}')
            for number, (question, seed) in enumerate((("full", 0), ("full", 1), ("serial", 0)))
        ],
        ignore_index=True,
    )
    rows = [(number, limit, number, 10 * (1 + number)) for number in range(3) for limit in capacity.CAUSES[1:]]
    table = pd.DataFrame(rows, columns=["run", "limit", "failures", "of"])
    found = capacity.by_layout(all_runs, capacity.failures(all_runs, table))
    assert found[["question", "sample_seed", "row", "failures", "of"]].to_numpy().tolist() == [
        ["full", 0, 0, 0, 10],
        ["full", 1, 1, 3, 20],
        ["serial", 0, 2, 6, 30],
    ]


def test_launches_of_a_run_are_added_up() -> None:
    tables = planted()
    tables["counters"] = pd.concat([tables["counters"], tables["counters"]], ignore_index=True)
    assert capacity.exception_path(tables).set_index("arm").loc["full", "launches"] == 10


def test_an_outcome_that_is_not_deterministic_has_no_rate() -> None:
    tables = planted()
    runs = tables["runs"]
    again = runs.assign(inputs="0" * 16)
    with pytest.raises(DataError, match="not deterministic"):
        capacity.failures(again, tables["capacity"])


def test_cost_of_a_failure_and_of_the_path_when_nothing_fails() -> None:
    found = capacity.exception_path(planted()).set_index("arm").loc["full"]
    assert found["per_failure_low_ns"] < 5e4 < found["per_failure_high_ns"]
    assert found["idle_ns"] == pytest.approx(2e4, rel=0.02)
    assert found["launches"] == 5
    assert found["failing_rows"] == 2
    free = capacity.exception_path(planted(cost_ns=0.0)).set_index("arm").loc["full"]
    assert free["per_failure_low_ns"] < 0 < free["per_failure_high_ns"]


def test_rows_of_all_limits_fail_and_runs_without_a_time_or_a_count_are_left_out() -> None:
    tables = planted()
    rows, runs = tables["capacity"].astype({"limit": str}), tables["runs"]
    rows.loc[(rows["limit"] == "row") & rows["run"].isin(runs.loc[runs["round"] % 2 == 0, "run"]), "failures"] = 1
    uncounted, untimed = (int(runs.loc[(runs["arm"] == "full") & (runs["round"] == n), "run"].iloc[0]) for n in (0, 1))
    rows = rows[rows["run"] != uncounted]
    times = tables["times"][tables["times"]["run"] != untimed]
    found = capacity.exception_path({**tables, "capacity": rows, "times": times}).set_index("arm").loc["full"]
    assert (found["runs"], found["failing_rows"]) == (18, 2.5)
    assert found["per_failure_low_ns"] < found["per_failure_ns"] < found["per_failure_high_ns"]
    of = (
        times.merge(runs[["run", "arm"]], on="run")
        .query("arm == 'full' and run != @uncounted")
        .groupby("stage")["time_ns"]
        .sum()
    )
    assert found["share"] == pytest.approx(of["repair"] / of["operator"])


def test_the_interval_of_a_slope_is_students() -> None:
    x, y = np.array([0.0, 1, 2]), np.array([0.0, 1, 3])
    low, slope, high = capacity._slope(x, y)
    half = stats.t.ppf(0.975, 1) * stats.linregress(x, y).stderr
    assert (low, slope, high) == pytest.approx((1.5 - half, 1.5, 1.5 + half))
    assert np.isnan([capacity._slope(x[:2], y[:2])[i] for i in (0, 2)]).all()


def test_a_cost_is_not_invented_where_failures_never_vary() -> None:
    tables = planted()
    tables["capacity"]["failures"] = 0
    found = capacity.exception_path(tables).set_index("arm").loc["full"]
    assert np.isnan(found["per_failure_ns"])
    assert found["idle_ns"] > 0


def test_limits_side_by_side_with_the_layout_that_failed() -> None:
    tables = planted()
    flags = '{"LAYOUT": "split", "SEGMENT_CAPACITY": 368, "SPILL": false}'
    runs = tables["runs"].astype({"flags": str}).assign(flags=flags)
    row = capacity.by_layout(runs, capacity.failures(runs, tables["capacity"])).set_index("arm").loc["full"]
    assert row[["layout", "entries", "spill"]].tolist() == ["split", 368, False]
    assert row[["segment", "row", "underflow", "failures", "of"]].tolist() == [40, 0, 0, 40, 20 * 64]
    assert row["rate_low"] < 40 / 1280 < row["rate_high"]
    assert capacity.by_layout(runs, capacity.failures(runs, tables["capacity"][:0])).empty


def test_shapes_are_not_mixed_and_launches_are_counted_by_their_sizes() -> None:
    tables = planted()
    runs = tables["runs"].astype({"shape": str})
    runs.loc[runs["round"] >= 10, "shape"] = "q=64,n=16384"
    sizes = pd.DataFrame({"run": runs["run"].repeat(3), "metric": "grid_ctas", "value": 132.0})
    tables |= {"runs": runs, "counters": planted_gpu.counted(sizes, stage="repair")}
    found = capacity.exception_path(tables)
    mine = found[found["arm"] == "full"]
    assert mine["shape"].tolist() == ["q=64,n=8192", "q=64,n=16384"]
    assert mine["launches"].tolist() == [3, 3]


def test_what_a_layout_drops_is_the_question_and_other_work_is_not() -> None:
    recording = open_recording(shipped_root() / "traces" / "h200-index-topk-capacity")
    tables = {n: recording.table(n) for n in ("runs", "times", "checks", "counters")}

    def verdict() -> str:
        found = capacity.against_base(recording, tables, "event").set_index(["distribution", "arm"])
        return str(found.loc[("overflow", "shared"), "verdict"])

    assert verdict() == "faster"
    runs, counters = tables["runs"], tables["counters"]
    mine = runs.loc[(runs["arm"] == "shared") & (runs["distribution"] == "overflow"), "run"]
    planted = counters["run"].isin(mine) & (counters["metric"] == "tma_loads")
    assert planted.any()
    tables["counters"] = counters.assign(value=counters["value"].where(~planted, counters["value"] + 4))
    assert verdict() == "void"
