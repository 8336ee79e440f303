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
from attribution.errors import DataError
from attribution.measured import TRACED
from attribution.recording import Recording, open_recording

TRACES = Path(__file__).parents[2] / "traces"

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


def altered(recording: Recording, path: Path, **tables: pd.DataFrame) -> Recording:
    """The same with other tables."""
    return planted_gpu.recording(path, {n: recording.table(n) for n in recording.table_names} | tables, VARIANTS)


WHERE = confirm.Where("main", "graph", 32.0)


@pytest.mark.parametrize("fault", ["a full lane", "a lost pair of records", "another SM"])
def test_a_trace_that_cannot_be_believed_is_no_witness(tmp_path: Path, fault: str) -> None:
    recording = gpu(tmp_path)
    lanes, events = recording.table("lanes"), recording.table("events")
    faults = {
        "a full lane": ({"lanes": lanes.assign(capacity=4)}, "lost"),
        "a lost pair of records": ({"events": events.drop(index=[0, 1])}, "do not hold the records"),
        "another SM": ({"lanes": lanes.assign(sm_begin=(lanes["sm_begin"] + lanes["role"]) % 3)}, "began on SMs"),
    }
    tables, sentence = faults[fault]
    assert len(confirm.accounts(recording, "full", "full")[0]) == 12
    with pytest.raises(DataError, match=sentence):
        confirm.accounts(altered(recording, tmp_path / "wrong", **tables), "full", "full")


def test_without_rows_an_account_has_no_finish_and_without_a_trace_there_is_neither(tmp_path: Path) -> None:
    recording = gpu(tmp_path)
    account, finish = confirm.accounts(
        altered(recording, tmp_path / "a", rows=recording.table("rows")[:0]), "full", "full"
    )
    assert (len(account), len(finish)) == (12, 0)
    assert (account["round"].tolist(), account["clock_mhz"].unique().tolist()) == (list(range(12)), [1600.0])
    assert [len(part) for part in confirm.accounts(recording, "full", "filter_only")] == [0, 0]
    # A kernel of one role waits for nobody: it has a finish, and no account.
    one_role = open_recording(TRACES / "h200-hello")
    account, finish = confirm.accounts(one_role, "vector", "vector")
    assert (len(account), len(finish) > 0) == (0, True)


def test_pairs_are_of_cycles_unless_a_clock_is_missing_and_of_traced_builds_where_both_were_timed(
    tmp_path: Path,
) -> None:
    recording = gpu(tmp_path)
    tables = {n: recording.table(n) for n in ("runs", "times")}
    account = confirm.accounts(recording, "full", "full")[0]

    def found(account: pd.DataFrame, runs: pd.DataFrame = tables["runs"]) -> list[tuple[str, str, str]]:
        asked = confirm.exposed(recording, {**tables, "runs": runs}, "full", ["filter_only", "full"], account, WHERE)
        assert all(pair.first is not None for pair in asked)
        return [(pair.term, pair.first.source.rpartition(" ")[2], pair.note) for pair in asked if pair.first]

    plain, traced = found(account)
    assert plain[:2] == ("exposed above filter_only", "cycles")
    assert plain[2].endswith("of filter_only; waits and drain only: filter_only has no trace")
    assert traced == ("exposed above filter_only+trace", "cycles", "")
    assert [pair[1] for pair in found(account.assign(clock_mhz=math.nan))] == ["time", "time"]
    assert found(account.iloc[:0]) == [("exposed above filter_only", "cycles", "full has no trace")]
    untimed = tables["runs"][tables["runs"]["arm"] != "filter_only" + TRACED]
    assert [pair[0] for pair in found(account, untimed)] == ["exposed above filter_only"]


def test_whole_tiles_are_allowed_as_much_as_they_add(tmp_path: Path) -> None:
    recording = gpu(tmp_path)
    tables = {n: recording.table(n) for n in ("runs", "times", "counters")}
    in_batches = tables["runs"].astype({"flags": str}).assign(flags='{"BLOCK_Q": 4}')
    for runs, batch in ((tables["runs"], 0), (in_batches, 4)):
        second = confirm.tensor(recording, {**tables, "runs": runs}, "full", 3.06e6, 1.0, WHERE).second
        assert second is not None
        # 64 queries at the end of 8192 keys; a tile has 64 keys of 4 rows.
        useful = sum(8192 - 64 + row + 1 for row in range(64))
        read = sum(4 * 64 * -(-(8192 - 64 + first + 4) // 64) for first in range(0, 64, 4))
        assert second.tick == pytest.approx(second.value * (read / useful - 1) if batch else 0.0)


def test_sms_are_the_devices_and_on_the_reference_machine_a_knob(tmp_path: Path) -> None:
    recording = gpu(tmp_path)
    knobs = pd.DataFrame({"knobs": ['{"sms": 7}']})
    assert confirm.sms_of(recording, knobs) == 3
    host = open_recording(TRACES / "host-math-only")
    assert confirm.sms_of(host, knobs) == 7
    runs = host.table("runs")
    assert confirm.sms_of(host, runs) == json.loads(str(runs["knobs"].iloc[0]))["sms"]


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
    finish = confirm.accounts(recording, "full", "full")[1]
    alone = confirm.tail(shared, "full", finish, WHERE)
    assert alone.first is not None
    assert alone.first.source == "trace: last finish minus mean finish"
    assert alone.first.tick == pytest.approx(2 * 32.0 / finish["finish_ns"].mean())
    assert confirm.tail(shared, "full", finish.iloc[:0], WHERE).verdict == "no witness"


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
    # Other counts of the same: Nsight's percentage, or FLOP of 3 SMs over cycles; rollups only.
    pipe = "sm__inst_executed_pipe_tensor_x.avg.pct_of_peak_sustained_elapsed"
    for own in ({pipe: 60.0}, {"mma_flop": 0.6 * 3 * 1020, "sm__cycles_elapsed.max": 1020.0}):
        rows = [(run, metric, value) for run in mine for metric, value in own.items()]
        counts = planted_gpu.counted(pd.DataFrame(rows, columns=["run", "metric", "value"]))
        counts = pd.concat([counts, counts.assign(instance="0", value=7.0)], ignore_index=True)
        other = confirm.tensor(recording, {**tables, "counters": counts}, "full", 3.06e6, 1.0, where)
        assert other.first is not None
        assert other.first.value == pytest.approx(0.6)
        assert other.first.source == ("counters: " + (pipe if pipe in own else "matrix FLOP / peak / elapsed cycles"))
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
