"""Second witnesses as a GPU leaves them: traced builds are arms of their own, and every arm runs at a clock of its own."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import planted_gpu
import pytest

from attribution.analyze import clock, confirm, ledger
from attribution.analyze.book import book
from attribution.analyze.interventions import interventions
from attribution.measured import TRACED
from attribution.recording import Recording

VARIANTS = {name: v for name, v in planted_gpu.ladder_variants().items() if name in ("full", "filter_only")}
ARMS = {"full": 1e6, "filter_only": 0.8e6, "null": 1e6}


def gpu(tmp_path: Path, cost: float = 0.1, exposed: float = 0.2, clocks: dict[str, float] | None = None) -> Recording:
    """Full and its control, and the same traced: the traced base takes `cost` longer, and is exposed for `exposed` of it."""
    traced = {"full" + TRACED: 1e6 * (1 + cost), "filter_only" + TRACED: 1e6 * (1 + cost) * (1 - exposed)}
    tables = planted_gpu.measured({"full": {**ARMS, **traced}}, rounds=12)
    runs, times = tables["runs"], tables["times"]
    mine = runs.loc[runs["arm"] == "full" + TRACED, "run"]
    arm = runs.set_index("run")["arm"].astype(str).reindex(times["run"]).to_numpy()
    mhz = pd.Series(arm).map(dict.fromkeys([*ARMS, *traced], 1700.0) | (clocks or {})).to_numpy()
    # The card keeps its cycles: at a lower clock the same cycles take longer.
    times["time_ns"] *= 1700.0 / mhz
    times["clock_mhz"] = mhz
    stamps = pd.DataFrame({"run": mine, "scope": "trace", "stage": "main", "cache": "warm", "clock": "as-found"})
    stamps = stamps.assign(sample=0, time_ns=1.3e6, clock_mhz=1600.0, flags="")
    tables["times"] = pd.concat([times.astype(object), stamps.astype(object)], ignore_index=True)
    for column in ("scope", "stage", "cache", "clock", "flags"):
        tables["times"][column] = tables["times"][column].astype("category")
    tables["times"] = tables["times"].astype({"run": "int32", "sample": "int32", "time_ns": float, "clock_mhz": float})
    events = planted_gpu.trace(list(mine), 8e4, 8e4 * exposed / (1 - exposed), slots=1, batches=12, ctas=3)
    return planted_gpu.recording(tmp_path / "rec", {**tables, **events}, VARIANTS)


def pairs(recording: Recording) -> pd.DataFrame:
    return book(recording, "full", "graph").witnesses.set_index("term")


def test_the_traced_builds_are_a_pair_of_their_own(tmp_path: Path) -> None:
    found = pairs(gpu(tmp_path))
    assert found.loc["exposed above filter_only", "verdict"] == "agree"
    assert found.loc["exposed above filter_only", "note"].startswith("tracing costs +10.")
    assert found.loc["exposed above filter_only+trace", "verdict"] == "agree"


def test_a_trace_that_changes_the_kernel_confirms_its_own_build_only(tmp_path: Path) -> None:
    found = pairs(gpu(tmp_path, cost=0.3, exposed=0.35))
    assert found.loc["exposed above filter_only", "verdict"] == "witnesses disagree"
    assert found.loc["exposed above filter_only+trace", "verdict"] == "agree"
    assert "tracing costs +30" in found.loc["exposed above filter_only", "note"]


def test_shares_are_of_cycles_where_clocks_are_known(tmp_path: Path) -> None:
    """The control draws more power and runs at a lower clock: as a share of time its mechanism looks smaller than it is."""
    recording = gpu(tmp_path, clocks={"filter_only": 1600.0})
    found = pairs(recording).loc["exposed above filter_only"]
    assert found["first"].endswith("cycles")
    assert found["first_value"] == pytest.approx(0.2, abs=0.005)
    assert found["verdict"] == "agree"
    tables = {n: recording.table(n) for n in ("runs", "times")}
    _, in_time, _ = ledger.control_share(tables, "full", "filter_only", scope="graph")
    assert in_time == pytest.approx(1 - 0.8 * 1700 / 1600, abs=0.005)
    times = tables["times"].copy()
    times.loc[times["scope"] == "graph", "clock_mhz"] = float("nan")
    assert clock.in_cycles(times, "main", "graph") is None


def test_equal_shares_have_no_law_of_rows(tmp_path: Path) -> None:
    recording = gpu(tmp_path)
    tables = {name: recording.table(name) for name in recording.table_names}
    flags = json.dumps({"SCHEDULE": "shares", "BLOCK_Q": 4})
    tables["runs"] = tables["runs"].astype({"flags": str, "knobs": str}).assign(flags=flags, knobs='{"ctas": 3}')
    shared = planted_gpu.recording(tmp_path / "shares", tables, VARIANTS)
    row = interventions(shared, "full", scope="graph").table.iloc[0]
    assert (row["rows_from"], row["busiest_sm_rows"], row["mean_rows"]) == ("equal shares", 64 / 3, 64 / 3)
    tail = book(shared, "full", "graph").witnesses.set_index("term").loc["tail by rows"]
    assert tail["verdict"] == "one witness"
    assert "equal share of all work" in tail["note"]


def test_tensor_cycles_against_arithmetic(tmp_path: Path) -> None:
    recording = gpu(tmp_path)
    tables = {n: recording.table(n) for n in ("runs", "times", "counters")}
    mine = tables["runs"].loc[tables["runs"]["arm"] == "full", "run"].iloc[:3]
    counted = [
        (run, metric, value)
        for i, run in enumerate(mine)
        for metric, value in (("tensor_cycles_active", 4 * 612.0), ("sm_cycles_elapsed", 1019.0 + i))
    ]
    tables["counters"] = planted_gpu.counted(pd.DataFrame(counted, columns=["run", "metric", "value"]))
    where = confirm.Where("main", "graph", 32.0)
    # 1e6 ns at 1700 MHz on 3 SMs are 5.1e6 cycles: 3.06e6 FLOP at one a cycle are 60 % of them.
    found = confirm.tensor(recording, tables, "full", 3.06e6, 1.0, where)
    assert found.verdict == "agree"
    assert found.first is not None
    assert found.first.value == pytest.approx(0.6, abs=0.001)
    # Work that was counted and does not appear in the arithmetic is seen.
    assert confirm.tensor(recording, tables, "full", 2.5e6, 1.0, where).verdict == "witnesses disagree"
    # Counters of another stage are not this stage's.
    tables["counters"] = tables["counters"].assign(stage="sample_scores")
    assert confirm.tensor(recording, tables, "full", 3.06e6, 1.0, where).verdict == "one witness"
    lost = confirm.tensor(recording, tables, "full", float("nan"), 1.0, where)
    assert (lost.verdict, lost.note) == ("no witness", "not known: useful FLOP")


def test_one_common_round_has_a_share_without_an_interval(tmp_path: Path) -> None:
    recording = gpu(tmp_path)
    tables = {n: recording.table(n) for n in ("runs", "times")}
    tables["runs"] = tables["runs"][tables["runs"]["round"] == 0]
    low, value, high = ledger.control_share(tables, "full", "filter_only", scope="graph", build=TRACED)
    assert 0 < value < 1
    assert math.isnan(low)
    assert math.isnan(high)
    account = confirm.accounts(recording, "full", "full")[0].iloc[:1]
    where = confirm.Where("main", "graph", 32.0)
    pairs = confirm.exposed(
        recording, {**tables, "times": recording.table("times")}, "full", ["filter_only", "full"], account, where
    )
    assert {pair.verdict for pair in pairs} == {"not confirmed"}
