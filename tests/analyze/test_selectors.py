"""Selectors side by side: planted laws and faults, and the claims of a published comparison from its own columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from planted import measured
from planted_selectors import planted, sweep

from attribution.analyze import dispatch, selectors
from attribution.analyze.contrast import contrast
from attribution.errors import DataError

PUBLISHED = Path(__file__).parents[1] / "data" / "published"
SCOPE = "host-virtual"
WIDTHS = (1024, 2048, 4096, 8192, 16384)
CROSSING = {
    "normal": {"torch_topk": lambda c: 1000.0 * c, "steep": lambda c: 100.0 * c, "flat": lambda c: 300_000 + 0.0 * c},
    "shifted": {"torch_topk": lambda c: 1000.0 * c, "steep": lambda c: 900.0 * c, "flat": lambda c: 300_000 + 0.0 * c},
}
"""steep and flat cross at 3000 columns on normal, and at 333 on shifted: below every width."""


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return sweep(CROSSING, WIDTHS)


@pytest.fixture(scope="module")
def cells(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    return selectors.cells(tables["runs"], tables["times"], tables["checks"], SCOPE, 1.0)


def test_every_pair_at_every_point_has_its_planted_ratio(cells: pd.DataFrame) -> None:
    assert len(cells) == 2 * len(WIDTHS) * 3
    for row in cells.itertuples():
        laws = CROSSING[row.distribution]
        truth = laws[row.second](row.columns) / laws[row.first](row.columns)
        assert row.ratio == pytest.approx(truth, rel=0.01)
        assert row.verdict == ("faster" if truth < 1 else "slower")


def test_rows_that_were_selected_again_are_counted_by_the_worst_run(tables: dict[str, pd.DataFrame]) -> None:
    runs = tables["runs"]
    mine = runs[(runs["arm"] == "steep") & (runs["distribution"] == "shifted")]
    narrow = mine[mine["shape"].astype(str).str.contains("columns=1024,")]
    capacity = pd.DataFrame(
        {"run": narrow["run"], "limit": "row", "failures": [0, 3, 1, *[0] * (len(narrow) - 3)], "of": 64}
    )
    (found,) = selectors.selected_again(runs, capacity).to_dict("records")
    assert (found["selector"], found["distribution"], found["columns"]) == ("steep", "shifted", 1024)
    assert (found["limit"], found["failures"], found["of"]) == ("row", 3, 64)
    assert selectors.selected_again(runs, capacity.assign(failures=0)).empty


def test_intervals_hold_the_planted_ratio() -> None:
    held = []
    for rounds in range(5, 25):
        tables = sweep(
            {"normal": {"torch_topk": lambda c: 1e6, "other": lambda c: 0.97e6}}, (1024, 2048), rounds=rounds
        )
        found = selectors.cells(tables["runs"], tables["times"], tables["checks"], SCOPE, 1.0)
        held += [(found["ratio_low"] <= 0.97) & (found["ratio_high"] >= 0.97)]
    assert np.concatenate(held).mean() >= 0.85


def test_the_crossover_is_bracketed_and_found(cells: pd.DataFrame) -> None:
    found = selectors.crossovers(cells)
    mine = found[(found["first"] == "flat") & (found["second"] == "steep")].set_index("distribution")
    normal = mine.loc["normal"]
    assert (normal["narrow"], normal["wide"], normal["changes"]) == ("steep", "flat", 1)
    assert (normal["low_columns"], normal["high_columns"]) == (2048, 4096)
    assert normal["columns"] == pytest.approx(3000, rel=0.02)
    assert (mine.loc["shifted", "narrow"], mine.loc["shifted", "changes"]) == ("flat", 0)
    assert mine.loc["shifted", "words"] == "flat at every width that is decided (5 of 5)"


def test_a_width_that_is_not_decided_widens_the_bracket() -> None:
    laws = {
        "normal": {
            "torch_topk": lambda c: 1000.0 * c,
            "a": lambda c: 100.0 * c,
            "b": lambda c: {4096: 409_600.0}.get(c, 3e5),
        }
    }
    tables = sweep(laws, WIDTHS)
    found = selectors.crossovers(selectors.cells(tables["runs"], tables["times"], tables["checks"], SCOPE, 1.0))
    row = found[(found["first"] == "a") & (found["second"] == "b")].iloc[0]
    assert (row["low_columns"], row["high_columns"]) == (2048, 8192)


def test_two_changes_are_no_crossover() -> None:
    laws = {"normal": {"torch_topk": lambda c: 1e6, "odd": lambda c: 2e6 if c == 4096 else 5e5}}
    tables = sweep(laws, WIDTHS)
    row = selectors.crossovers(selectors.cells(tables["runs"], tables["times"], tables["checks"], SCOPE, 1.0)).iloc[0]
    assert row["changes"] == 2
    assert "no single width" in row["words"]
    assert np.isnan(row["columns"])


def test_equal_selectors_are_not_told_apart() -> None:
    decided = []
    for seed in range(10):
        tables = sweep({"normal": {"torch_topk": lambda c: 1e6, "again": lambda c: 1e6}}, (1024 + seed,))
        decided += [*selectors.cells(tables["runs"], tables["times"], tables["checks"], SCOPE, 1.0)["verdict"]]
    assert sum(verdict in ("faster", "slower") for verdict in decided) <= 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"passed": False}, "flat: wrong output"),
        ({"status": "skipped", "reason": "it is not there"}, "flat: it is not there"),
    ],
    ids=["wrong-output", "skipped"],
)
def test_a_selector_without_right_outputs_is_void_and_never_chosen(
    tables: dict[str, pd.DataFrame], change: dict[str, object], reason: str
) -> None:
    spoiled = planted(tables, "flat", "normal", **change)
    found = selectors.cells(spoiled["runs"], spoiled["times"], spoiled["checks"], SCOPE, 1.0)
    mine = found[(found["distribution"] == "normal") & ((found["first"] == "flat") | (found["second"] == "flat"))]
    assert set(mine["verdict"]) == {"void"}
    assert all(text.startswith(reason) for text in mine["reason"])
    rule = dispatch.rule(found, ["normal", "shifted"], {})
    assert {span.selector for span in rule.spans} == {"steep"}


def test_one_wrong_run_is_enough(tables: dict[str, pd.DataFrame]) -> None:
    checks = tables["checks"].copy()
    runs = tables["runs"]
    one = runs.loc[(runs["arm"] == "steep") & (runs["distribution"] == "normal"), "run"].iloc[-1]
    checks.loc[checks["run"] == one, "passed"] = False
    found = selectors.cells(runs, tables["times"], checks, SCOPE, 1.0)
    mine = found[(found["distribution"] == "normal") & (found["columns"] == WIDTHS[-1])]
    assert set(mine.loc[(mine["second"] == "steep") | (mine["first"] == "steep"), "verdict"]) == {"void"}


@pytest.mark.parametrize("flag", ["clock-limited", "host-bound"])
def test_samples_of_the_clock_or_the_host_decide_nothing(tables: dict[str, pd.DataFrame], flag: str) -> None:
    times = tables["times"].assign(flags=flag)
    found = selectors.cells(tables["runs"], times, tables["checks"], SCOPE, 1.0)
    assert set(found["verdict"]) == {"undecided"}
    assert found["reason"].str.startswith(f"{flag} samples; ").all()
    assert set(selectors.crossovers(found)["words"]) == {"undecided at every width"}


def test_planted_modes_are_named_where_they_are(tables: dict[str, pd.DataFrame]) -> None:
    assert selectors.in_two_modes(tables["runs"], tables["times"], SCOPE, 1.0).empty
    runs = tables["runs"]
    mine = runs[(runs["arm"] == "steep") & (runs["distribution"] == "shifted")]
    mine = mine[mine["shape"].astype(str).str.contains("columns=1024,")]
    times = tables["times"].copy()
    slow = times["run"].isin(mine["run"].iloc[:3])
    times.loc[slow, "time_ns"] *= 2
    found = selectors.in_two_modes(runs, times, SCOPE, 1.0)
    (row,) = found.to_dict("records")
    assert (row["selector"], row["distribution"], row["columns"]) == ("steep", "shifted", 1024)
    assert row["upper_ns"] / row["lower_ns"] == pytest.approx(2, rel=0.01)
    assert (row["upper"], row["lower"] + row["upper"]) == (slow.sum(), times["run"].isin(mine["run"]).sum())


@pytest.mark.parametrize(
    ("ratio", "slowed", "verdict"),
    [
        (0.5, {"arm": 1.3}, "faster"),
        (0.5, {"arm": 1.3, "torch_topk": 1.3}, "faster"),
        (0.6, {"arm": 1.8}, "undecided"),
        (0.6, {"arm": 1.8, "torch_topk": 1.3}, "undecided"),
    ],
)
def test_modes_decide_as_in_a_contrast(ratio: float, slowed: dict[str, float], verdict: str) -> None:
    tables = measured({"torch_topk": 1.0, "arm": ratio, "null": 1.0}, rounds=24)
    tables["runs"] = tables["runs"].astype({"shape": str}).assign(shape="rows=64,columns=4096,k=512")
    for arm, factor in slowed.items():
        runs = tables["runs"].loc[tables["runs"]["arm"] == arm, "run"].iloc[::4]
        tables["times"].loc[tables["times"]["run"].isin(runs), "time_ns"] *= factor
    (cell,) = selectors.cells(tables["runs"], tables["times"], tables["checks"], SCOPE, 1.0).to_dict("records")
    same = contrast(**tables, base="torch_topk", arm="arm", tick_ns=1.0)
    assert cell["verdict"] == same.verdict == verdict
    assert cell["reason"] == same.reasons[0]
    assert all(f"{arm}: two modes: " in cell["reason"] for arm in slowed) == (verdict == "undecided")


def test_the_rule_takes_the_best_worst_case_by_width(cells: pd.DataFrame) -> None:
    rule = dispatch.rule(cells, ["normal"], {})
    assert [(s.low, s.high, s.selector) for s in rule.spans] == [(1024, 2048, "steep"), (4096, 16384, "flat")]
    both = dispatch.rule(cells, ["normal", "shifted"], {})
    # At 1024 columns: steep is 3.07 x flat on shifted, flat 2.93 x steep on normal.
    assert [(s.low, s.selector) for s in both.spans] == [(1024, "flat")]
    assert both.spans[0].worst == pytest.approx(300_000 / 102_400, rel=0.02)
    assert both.spans[0].worst_on == "normal"


def test_the_rule_names_conditions_and_who_serves_the_rest(cells: pd.DataFrame) -> None:
    lines = dispatch.rule(cells, ["normal"], {"steep": ["rows start at column zero"]}).lines()
    text = "\n".join(lines)
    assert "between 2048 and 4096 columns: not measured" in text
    assert "steep is eligible only when: rows start at column zero" in text
    assert "else: 1024 to 16384 columns: flat (nothing measured took less time)" in text
    assert "steep (nothing measured took less time)" in text
    assert "flat (at most 2.9" in str(dispatch.rule(cells, ["normal", "shifted"], {}).spans[0])


def test_a_rule_needs_something_to_choose_from(cells: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="no selector was measured on captured; there are: normal, shifted"):
        dispatch.rule(cells, ["captured"], {})


def test_claims_say_what_turns_round(cells: pd.DataFrame) -> None:
    lines = dispatch.claims(cells, "steep", "flat", ["normal"])
    assert lines[0].startswith(
        "Random inputs would have claimed that flat is 0.34 to 5.46 x as fast as steep on normal."
    )
    assert "shifted 3.0" in lines[0]
    assert lines[1].endswith("turns round in 2 of 5 comparisons at one shape: at 1024, 2048 columns, on shifted.")
    assert dispatch.most_sensitive(cells) == ("flat", "steep")


def test_sensitivity_is_the_time_on_one_distribution_over_the_random_one(cells: pd.DataFrame) -> None:
    found = selectors.sensitivity(cells, "normal").set_index("selector")
    assert found.loc["steep", ["least", "most"]].tolist() == pytest.approx([9, 9], rel=0.05)
    assert found.loc["flat", "shapes"] == len(WIDTHS)


def test_a_pair_that_was_not_measured_is_a_sentence(cells: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="steep and none were not measured side by side; there are: flat, steep"):
        selectors.oriented(cells, "steep", "none")


def test_another_kernels_shape_is_a_sentence(tables: dict[str, pd.DataFrame]) -> None:
    with pytest.raises(DataError, match="q=8,n=64"):
        selectors.points(tables["runs"].assign(shape="q=8,n=64"))


# --- a published comparison on a GB200: one native selector against another ----------------------------------------


def printed(name: str, distribution: str = "") -> pd.DataFrame:
    """Cells of a published table; the interval of a ratio is what its printed digits leave open."""
    table = pd.read_csv(PUBLISHED / name)
    half, native, other = 0.05, table["native_us"], table["deepselect_us"]
    low, high = (other - half) / (native + half), (other + half) / (native - half)
    return pd.DataFrame(
        {
            "distribution": distribution or table["distribution"], "rows": table["rows"], "columns": table["columns"], "k": 512,
            "first": "native", "second": "deepselect", "pairs": 4, "first_ns": native * 1e3, "second_ns": other * 1e3,
            "ratio": other / native, "ratio_low": low, "ratio_high": high,
            "verdict": np.where(high < 1, "faster", np.where(low > 1, "slower", "undecided")), "reason": "printed",
        }
    )  # fmt: skip


def test_published_synthetic_profile_against_captured_inputs() -> None:
    captured = printed("selectors_captured.csv", "captured")
    # The earlier profile's two numbers: ten launches with dummy weights, 7.52 and 1.19 ms.
    profile = captured.head(1).assign(
        distribution="dummy weights", first_ns=7.52e6, second_ns=1.19e6, ratio=1.19 / 7.52
    )
    lines = dispatch.claims(pd.concat([profile, captured]), "native", "deepselect", ["dummy weights"])
    assert lines[0] == (
        "Random inputs would have claimed that deepselect is 6.32 x as fast as native on dummy weights. "
        "Others say: captured 0.57 to 1.29 x."
    )


def test_published_crossovers_and_rule() -> None:
    found = selectors.crossovers(
        pd.concat([printed("selectors_captured.csv", "captured"), printed("selectors_synthetic.csv", "random")])
    )
    for row in found.itertuples():
        assert (row.narrow, row.wide, row.changes) == ("native", "deepselect", 1)
        assert (row.low_columns, row.high_columns) == (51200, 102400)
    estimates = found.set_index("distribution")["columns"]
    assert 55_000 < estimates["captured"] < 70_000
    assert 55_000 < estimates["random"] < 70_000
    rule = dispatch.rule(
        printed("selectors_captured.csv", "captured"), ["captured"], {"deepselect": ["capability 10.0"]}
    )
    assert [(s.low, s.high, s.selector) for s in rule.spans] == [
        (4096, 51200, "native"),
        (102400, 102400, "deepselect"),
    ]
    assert "else: 4096 to 102400 columns: native" in rule.lines()[-1]


def test_published_distributions_turn_the_answer_round() -> None:
    found = printed("selectors_distribution.csv")
    effect = selectors.sensitivity(found, "normal").set_index(["selector", "distribution"])["most"]
    assert effect["native", "normal_plus_100"] == pytest.approx(1168.0 / 122.4)
    assert effect["deepselect", "normal_plus_100"] == pytest.approx(241.8 / 225.1)
    lines = dispatch.claims(found, "native", "deepselect", ["normal"])
    assert "0.54 x as fast as native on normal" in lines[0]
    assert "normal_plus_100 4.83 x; normal_times_1e-8 5.14 x" in lines[0]
    assert "turns round in 2 of 2" in lines[1]
