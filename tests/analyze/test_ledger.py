"""Ledgers that close, that do not, and witnesses that agree and disagree, all with planted answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import planted_gpu
import pytest

from attribution.analyze import lastsm, ledger, tails, witness
from attribution.analyze.book import Peak, book
from attribution.analyze.spans import spans
from attribution.declare import Event
from attribution.errors import DataError, InputError
from attribution.recording import Recording, write_tables
from attribution.show import waterfall

VARIANTS = planted_gpu.ladder_variants()
DECLARED = [Event(**e) for e in planted_gpu.EVENTS]
STAGES = {"sample": 5e4, "repair": 2e4, "gaps": 3e4}


def found_spans(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    return spans(tables["events"], tables["lanes"], planted_gpu.ROLES, DECLARED)


def test_operator_is_stages_and_gaps() -> None:
    found = ledger.operator_account(planted_gpu.full_ladder(stages=STAGES), "full").set_index("item")
    assert list(found.index) == ["main", "sample", "repair", "gaps", "operator"]
    assert found.loc["gaps", "low_ns"] < 3e4 < found.loc["gaps", "high_ns"]
    assert found.loc["operator", "time_ns"] == pytest.approx(found["time_ns"].iloc[:-1].sum())
    assert set(found["verdict"]) == {"measured"}


def test_stages_that_exceed_the_operator_are_not_one_timeline() -> None:
    tables = planted_gpu.full_ladder(stages=STAGES)
    tables["times"].loc[tables["times"]["stage"] == "operator", "time_ns"] *= 0.9
    found = ledger.operator_account(tables, "full").set_index("item")
    assert found.loc["gaps", "verdict"] == "void"
    assert "not timed on one timeline" in found.loc["gaps", "reason"]


def test_what_a_scope_did_not_time_is_no_gap(tmp_path: Path) -> None:
    """Planted: in graph only main and the operator were timed; what is left of it holds two stages."""
    tables = planted_gpu.full_ladder(stages=STAGES)
    event = tables["times"].astype({"scope": str, "stage": str}).assign(scope="event")
    graph = event[event["stage"].isin(["main", "operator"])].assign(scope="graph")
    tables["times"] = pd.concat([graph, event], ignore_index=True)
    with pytest.raises(
        InputError, match="no account of the operator in graph/warm/as-found: sample, repair of full was not"
    ):
        ledger.operator_account(tables, "full", "graph")
    for asked in (None, "graph"):
        found = book(planted_gpu.recording(tmp_path / str(asked), tables, VARIANTS), "full", asked)
        assert (found.scope, set(found.operator["scope"])) == ("graph/warm/as-found", {"event/warm/as-found"})


def test_gaps_that_may_be_waits_for_the_host_are_no_term() -> None:
    tables = planted_gpu.full_ladder(stages=STAGES)
    tables["times"]["flags"] = "host-bound"
    found = ledger.operator_account(tables, "full").set_index("item")
    assert set(found["verdict"]) == {"undecided"}
    assert found["reason"].str.startswith("host-bound: ").all()


def test_stages_of_another_scope_are_not_added() -> None:
    tables = planted_gpu.full_ladder(stages=STAGES)
    whole = tables["times"]["stage"] == "operator"
    tables["times"].loc[whole, "scope"] = tables["times"]["scope"].cat.add_categories("event").iloc[0]
    tables["times"] = tables["times"].astype({"scope": str})
    tables["times"].loc[whole, "scope"] = "event"
    with pytest.raises(DataError, match="two scopes"):
        ledger.operator_account(tables, "full")
    with pytest.raises(InputError, match="no account of the operator"):
        ledger.operator_account(tables, "full", scope="graph")


def test_main_closes_with_a_floor() -> None:
    floor = ledger.Floor(useful_flop=5e8, practical_flop_per_s=1e12, spec_flop_per_s=2e12)
    found = ledger.main_account(planted_gpu.full_ladder(), VARIANTS, "full", floor)
    assert list(found["kind"]) == ["floor", *["term"] * 5, "sum", "total", "remainder"]
    table = found.set_index("item")
    assert table.loc["floor", "time_ns"] == pytest.approx(5e5)
    assert table.loc["math_only above floor", "time_ns"] == pytest.approx(2e5, rel=0.02)
    terms = found[found["kind"].isin(["floor", "term"])]["time_ns"].sum()
    assert terms == pytest.approx(table.loc["sum of the terms", "time_ns"])
    assert table.loc["remainder", "verdict"] == "closes"
    assert table.loc["remainder", "low_ns"] < 0 < table.loc["remainder", "high_ns"]


def test_a_total_that_the_terms_do_not_account_for_does_not_close() -> None:
    tables = planted_gpu.measured({"full": {**planted_gpu.TIMES, "null": 1.05e6}})
    found = ledger.main_account(tables, VARIANTS, "full").set_index("item")
    assert found.loc["remainder", "verdict"] == "does not close"
    assert found.loc["remainder", "low_ns"] < 5e4 < found.loc["remainder", "high_ns"]


def test_noise_is_not_called_closing_and_nothing_independent_is_said() -> None:
    noisy = ledger.main_account(planted_gpu.full_ladder(sd=0.05), VARIANTS, "full").set_index("item")
    assert noisy.loc["remainder", "verdict"] == "undecided"
    alone = ledger.main_account(planted_gpu.measured({"full": planted_gpu.TIMES}), VARIANTS, "full").set_index("item")
    assert alone.loc["remainder", "verdict"] == "not measured"


def test_the_ceiling_is_the_recordings_own_or_none() -> None:
    counters = planted_gpu.full_ladder()["counters"]
    assert np.isnan(ledger.practical_ceiling(counters))
    rates = pd.DataFrame({"run": [0, 1, 2], "metric": ledger.CEILING, "value": [1.4e15, 1.5e15, 1.3e15]})
    measured = planted_gpu.counted(rates, stage="ceiling")
    assert ledger.practical_ceiling(measured) == 1.4e15
    absent = planted_gpu.counted(rates.assign(value=np.nan), stage="ceiling")
    assert np.isnan(ledger.practical_ceiling(absent))


def test_a_rung_below_its_floor_is_void() -> None:
    found = ledger.main_account(planted_gpu.full_ladder(), VARIANTS, "full", ledger.Floor(5e9, 1e12, 2e12))
    assert found.set_index("item").loc["math_only above floor", "verdict"] == "void"


@pytest.mark.parametrize(
    ("practical", "spec", "floor_ns", "says"),
    [(5e11, 1e12, 5e5, "beats the practical ceiling's 1.000 ms"), (float("nan"), 1e12, 5e5, "no ceiling was measured")],
    ids=["beaten", "not measured"],
)
def test_a_ceiling_that_the_kernel_beats_is_no_floor(practical: float, spec: float, floor_ns: float, says: str) -> None:
    floor = ledger.Floor(5e8, practical, spec)
    found = ledger.main_account(planted_gpu.full_ladder(), VARIANTS, "full", floor).set_index("item")
    assert found.loc["floor", "time_ns"] == pytest.approx(floor_ns)
    assert says in found.loc["floor", "reason"]
    assert found.loc["math_only above floor", "verdict"] == "measured"


def remainder_covers(seed: int) -> bool:
    found = ledger.main_account(planted_gpu.full_ladder(seed=seed, rounds=14), VARIANTS, "full").set_index("kind")
    return bool(found.loc["remainder", "low_ns"] <= 0 <= found.loc["remainder", "high_ns"])


def exposed_covers(seed: int) -> tuple[bool, bool]:
    """20 % exposed consumer: does the control's interval cover it, and the trace's?"""
    tables = planted_gpu.measured({"full": {"full": 1e6, "filter_only": 0.8e6, "null": 1e6}}, seed=seed, rounds=14)
    low, _, high = ledger.control_share(tables, "full", "filter_only")
    traced = planted_gpu.trace(range(14), 80_000, 20_000, slots=1, batches=12, ctas=3, seed=seed)
    account = lastsm.account(found_spans(traced))
    share = witness.measured("", account[["wait_consumer", "drain"]].sum(axis=1).to_numpy())
    return low <= 0.2 <= high, share.low <= 0.2 <= share.high


def test_intervals_cover_the_planted_answers() -> None:
    assert sum(remainder_covers(seed) for seed in range(3)) >= 2
    hits = np.array([exposed_covers(seed) for seed in range(8)]).sum(axis=0)
    assert hits.min() >= 6


@pytest.mark.parametrize("slots", [1, 2])
def test_the_last_sm_is_an_account_that_adds_up(slots: int) -> None:
    traced = planted_gpu.trace([0, 1], 80_000, 20_000, slots=slots, batches=13, ctas=6, sms=3)
    account = lastsm.account(found_spans(traced))
    assert account[lastsm.SHARES].sum(axis=1).to_numpy() == pytest.approx(1.0)
    assert (account[["unowned", "idle"]].abs() < 1e-9).all(axis=None)
    if slots == 2:
        assert (account["wait_consumer"] == 0).all()
        assert (account["drain"] > 0).all()


def test_a_hole_in_the_trace_is_unowned_and_a_late_cta_is_idle_time() -> None:
    table = found_spans(planted_gpu.trace([0], 80_000, 20_000, slots=1, batches=4, ctas=2, sms=1, sd=0.0)).copy()
    for column in ("begin_ns", "end_ns"):
        table.loc[table["cta"] == 1, column] += 100_000
    hole = (table["cta"] == 0) & (table["event"] == "score")
    last = table.index[hole][-1]
    table.loc[last, "begin_ns"] += 10_000
    account = lastsm.account(table).iloc[0]
    assert account["total_ns"] == 500_000
    assert account["idle"] == pytest.approx(0.2)
    assert account["unowned"] == pytest.approx(0.02)
    assert account[lastsm.SHARES].sum() == pytest.approx(1.0)


def tail_covers(seed: int) -> bool:
    """One of three SMs has two batches of 100 us, the others one, and each a drain of 0.1 us: is their tail in the interval?"""
    traced = planted_gpu.trace(range(10), 100_000, 100, batches=4, ctas=3, sms=3, seed=seed, each=True)
    parts = lastsm.tail_parts(tails.per_sm(found_spans(traced), traced["rows"], 3))
    share, finish = witness.measured("", parts["by_rows"].to_numpy()), np.array([200.1, 100.1, 100.1])
    return share.low <= 1 - finish.mean() / finish.max() <= share.high


def test_three_sm_tail_from_finish_times_and_from_rows() -> None:
    traced = planted_gpu.trace(range(10), 100_000, 100, batches=4, ctas=4, sms=3)
    parts = lastsm.tail_parts(tails.per_sm(found_spans(traced), traced["rows"], 3))
    # One SM has two rows, two have one: the last finishes a third of its time after the mean.
    pair = witness.tail(parts, (1 / 3, 1 / 3, 1 / 3), "rows alone", 32.0)
    assert pair.verdict == "agree"
    assert pair.first is not None
    assert parts["tail"].to_numpy() == pytest.approx((parts["by_rows"] + parts["spread"]).to_numpy())
    assert pair.first.value == pytest.approx(1 / 3, abs=0.01)


def test_intervals_cover_the_planted_tail() -> None:
    assert sum(tail_covers(seed) for seed in range(8)) >= 6


def test_mislabelled_sms_make_the_witnesses_disagree() -> None:
    traced = planted_gpu.trace(range(10), 100_000, 100, batches=4, ctas=4, sms=3)
    traced["lanes"][["sm_begin", "sm_end"]] = 0
    parts = lastsm.tail_parts(tails.per_sm(found_spans(traced), traced["rows"], 3))
    pair = witness.tail(parts, (1 / 3, 1 / 3, 1 / 3), "rows alone", 32.0)
    assert pair.verdict == "witnesses disagree"
    assert pair.row()["first_value"] == pytest.approx(2 / 3, abs=0.01)
    traced["lanes"][["sm_begin", "sm_end"]] = 7
    with pytest.raises(DataError, match="SM id 7 on a device of 3 SMs"):
        tails.per_sm(found_spans(traced), traced["rows"], 3)


def test_what_the_consumer_costs_without_a_wait_is_longer_processing() -> None:
    """Two slots, so nobody waits; the pace role takes 2 % longer while it shares its issue slots with the consumer."""
    accounts = []
    for math_ns in (81_600, 80_000):
        traced = planted_gpu.trace(range(10), math_ns, 100, slots=2, batches=12, ctas=3)
        account = lastsm.account(found_spans(traced))
        accounts.append(account.assign(round=account["run"], clock_mhz=1700.0))
    control, names = (0.0195, 0.0196, 0.0197), ("full", "filter_only", "cycles")
    blind = witness.exposed(control, accounts[0], pd.DataFrame(), names, (1e-5, 1e-5))
    seeing = witness.exposed(control, *accounts, names, (1e-5, 1e-5))
    assert (blind.verdict, seeing.verdict) == ("witnesses disagree", "agree")
    assert seeing.second is not None
    assert seeing.second.value == pytest.approx(1 - 80_000 / 81_600, abs=0.001)
    # Without any contention there is nothing to see, and a control that claims some stands alone.
    assert witness.exposed(control, accounts[0], accounts[0], names, (1e-5, 1e-5)).verdict == "witnesses disagree"


def test_pairs_that_lack_something_are_not_confirmed() -> None:
    full = witness.Share("a", 0.2, 0.19, 0.21)
    assert witness.Pair("t", full, None).verdict == "one witness"
    assert witness.Pair("t", None, None).verdict == "no witness"
    assert witness.Pair("t", full, witness.Share("b", 0.2)).verdict == "not confirmed"
    far = witness.Pair("t", full, witness.Share("b", 0.25, 0.24, 0.26))
    assert far.verdict == "witnesses disagree"
    assert far.tolerance == pytest.approx(0.01 * 2**0.5)
    # A coarse timer widens what may differ, and says so in the tolerance.
    assert witness.Pair("t", full, witness.Share("b", 0.25, 0.24, 0.26, tick=0.04)).verdict == "agree"


def planted(tmp_path: Path, exposed: float = 0.05) -> Recording:
    """Ladder, stages and a trace of `full` in which the consumer is exposed for 20 % of the time."""
    times = {**planted_gpu.TIMES, "filter_only": (1 - exposed) * 1e6, "null": 1e6}
    if times["filter_only"] < times["score_only"]:
        times["score_only"] = times["filter_only"]
    tables = planted_gpu.measured({"full": times}, stages=STAGES)
    mine = tables["runs"].loc[tables["runs"]["arm"] == "full", "run"]
    traced = planted_gpu.trace(list(mine), 8e4, 2e4, slots=1, batches=12, ctas=3)
    useful = pd.DataFrame({"run": mine.iloc[:1], "metric": "useful_flop", "value": 4e8})
    share = pd.DataFrame({"run": mine, "metric": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"})
    share["value"] = 40 * np.exp(np.random.default_rng(1).normal(scale=0.01, size=len(share)))
    counters = [tables["counters"], planted_gpu.counted(useful), planted_gpu.counted(share, unit="%")]
    tables["counters"] = pd.concat([c.astype(object) for c in counters], ignore_index=True)
    return planted_gpu.recording(tmp_path / "rec", {**tables, **traced}, VARIANTS)


def test_a_book_with_three_pairs_of_witnesses(tmp_path: Path) -> None:
    # 4e8 useful FLOP of 1e6 ns x 3 SMs x 1755 MHz x 189.9 FLOP per cycle are 40 %.
    peak = Peak(practical_flop_per_s=6e11, spec_flop_per_s=1e12, flop_per_cycle_sm=1e15 / (3 * 1755e6) / 1e3)
    found = book(planted(tmp_path, 0.2), "full", peak=peak)
    verdicts = found.witnesses.set_index("term")["verdict"]
    assert verdicts["exposed above filter_only"] == "agree"
    assert verdicts["tensor time"] == "agree"
    assert verdicts["tail by rows"] == "agree"
    assert found.main.set_index("kind").loc["floor", "time_ns"] == pytest.approx(4e8 / 6e11 * 1e9)
    shares = found.beside.set_index("item")["share"]
    assert shares["drain"] + shares["wait_consumer"] == pytest.approx(0.2, abs=0.005)


def test_disagreeing_witnesses_keep_both_values(tmp_path: Path) -> None:
    found = book(planted(tmp_path, 0.05), "full").witnesses.set_index("term")
    row = found.loc["exposed above filter_only"]
    assert row["verdict"] == "witnesses disagree"
    assert (row["first_value"], row["second_value"]) == (pytest.approx(0.05, abs=0.01), pytest.approx(0.2, abs=0.01))
    assert found.loc["tensor time", "verdict"] == "no witness"


def test_a_book_refuses_labels_that_contradict_each_other(tmp_path: Path) -> None:
    found = planted(tmp_path, 0.2)
    tables = {name: found.table(name) for name in found.table_names}
    tables["rows"]["sm"] = (tables["rows"]["sm"] + 1) % 3
    with pytest.raises(DataError, match="a label is wrong"):
        book(planted_gpu.recording(tmp_path / "wrong", tables, VARIANTS), "full")


def test_a_book_without_a_trace_and_with_stages_in_another_scope(tmp_path: Path) -> None:
    tables = planted_gpu.full_ladder(stages=STAGES)
    other = tables["times"].astype({"scope": str}).assign(scope="event")
    mine = tables["times"][tables["times"]["stage"] == "main"]
    tables["times"] = pd.concat([mine.astype(object), other.astype(object)], ignore_index=True)
    found = book(planted_gpu.recording(tmp_path / "rec", tables, VARIANTS), "full")
    assert found.scope == "graph/warm/as-found"
    assert set(found.operator["scope"]) == {"event/warm/as-found"}
    verdicts = found.witnesses.set_index("term")["verdict"]
    assert verdicts["tail by rows"] == "no witness"
    assert verdicts["exposed above filter_only"] == "one witness"
    assert found.beside.empty


def under_cupti(tables: dict[str, pd.DataFrame], status: str = "ok") -> dict[str, pd.DataFrame]:
    """One run more, of `full` under the profiler: six replays of 1.1 ms, of which 20 us are gaps."""
    run = int(tables["runs"]["run"].max()) + 1
    last = tables["runs"].astype(object)[tables["runs"]["arm"] == "full"].iloc[[0]].assign(run=run, status=status)
    rows = []
    for sample in range(6):
        shift = 1e3 * sample
        parts = {"sample": 3e4, "main": 1.04e6 + shift, "repair": 1e4, "operator": 1.1e6 + shift}
        rows += [(run, "cupti", "warm", "as-found", s, sample, ns, np.nan, "clock-unknown") for s, ns in parts.items()]
    columns = ["run", "scope", "cache", "clock", "stage", "sample", "time_ns", "clock_mhz", "flags"]
    times = pd.concat([tables["times"].astype(object), pd.DataFrame(rows, columns=columns)], ignore_index=True)
    return {**tables, "runs": pd.concat([tables["runs"].astype(object), last], ignore_index=True), "times": times}


def test_the_operators_account_is_the_one_timelines_and_mains_is_where_arms_are_paired(tmp_path: Path) -> None:
    recording = planted_gpu.recording(tmp_path / "rec", under_cupti(planted_gpu.full_ladder(stages=STAGES)), VARIANTS)
    for asked in (None, "cupti", "cupti/warm/as-found"):
        found = book(recording, "full", asked)
        assert (found.scope, set(found.operator["scope"])) == ("graph/warm/as-found", {"cupti/warm/as-found"})
        account = found.operator.set_index("item")
        # The stages vary by 2 us; paired in their replay they leave the same 20 us each time, known to four ticks.
        assert account.loc["gaps", ["time_ns", "low_ns", "high_ns"]].tolist() == pytest.approx(
            [2e4, 2e4 - 128, 2e4 + 128]
        )
        assert account.loc["gaps", "verdict"] == "measured"
    assert set(book(recording, "full", "graph").operator["scope"]) == {"graph/warm/as-found"}
    with pytest.raises(InputError, match="no time in scope 'cupti'"):
        book(
            planted_gpu.recording(tmp_path / "none", planted_gpu.full_ladder(stages=STAGES), VARIANTS), "full", "cupti"
        )


def test_a_profiled_run_that_failed_or_is_of_an_older_protocol_gives_no_account(tmp_path: Path) -> None:
    failed = under_cupti(planted_gpu.full_ladder(stages=STAGES), status="failed")
    found = book(planted_gpu.recording(tmp_path / "rec", failed, VARIANTS), "full")
    assert set(found.operator["scope"]) == {"graph/warm/as-found"}
    new = under_cupti(planted_gpu.full_ladder(stages=STAGES))
    new["times"] = new["times"].replace({"scope": {"graph": "event"}})
    made = planted_gpu.recording(tmp_path / "new", new, VARIANTS)
    assert set(book(made, "full").operator["scope"]) == {"cupti/warm/as-found"}
    extra = {k: v for k, v in made.manifest.items() if k not in ("schema", "kind", "tables")}
    tables = {name: made.table(name) for name in made.table_names}
    old = write_tables(tmp_path / "old", "run", tables, {**extra, "protocol": 2})
    assert set(book(old, "full").operator["scope"]) == {"event/warm/as-found"}


def test_waterfall_stands_on_its_account(tmp_path: Path) -> None:
    account = ledger.main_account(planted_gpu.full_ladder(), VARIANTS, "full")
    table = waterfall.bars(account)
    stacked = table[table["kind"] == "term"]
    tops = (stacked["bottom_ns"] + stacked["height_ns"]).to_numpy()
    assert stacked["bottom_ns"].to_numpy()[1:] == pytest.approx(tops[:-1])
    assert tops[-1] == pytest.approx(table.set_index("kind").loc["sum", "height_ns"])
    waterfall.draw_waterfall(account, tmp_path / "w.svg")
    text = (tmp_path / "w.svg").read_text()
    assert "<svg" in text
    assert "</svg>" in text
    with pytest.raises(InputError, match="allowed are .svg and .png"):
        waterfall.draw_waterfall(account, tmp_path / "w.pdf")
