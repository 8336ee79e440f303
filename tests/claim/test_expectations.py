"""Claims: supported, refuted and undecided, each for its reason, and never for another machine or from void work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import planted_gpu as planted
import pytest

from attribution.claim import answers
from attribution.claim.expectations import MEASURED, claims, overturned
from attribution.declare import EXPECTED
from attribution.errors import InputError
from attribution.recording import Recording, open_recording

RATIO = planted.TIMES["score_only"] / planted.TIMES["full"]
TRACES = Path(__file__).parents[2] / "traces"


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Recording]:
    """A recording of `score_only` with these expectations; `change` spoils its tables."""

    def make(expects: dict[str, Any], change: Callable[[dict[str, pd.DataFrame]], None] | None = None) -> Recording:
        arms = {name: planted.TIMES[name] for name in ("full", "score_only")} | {"null": planted.TIMES["full"]}
        work = {arm: {"tma_loads": 64.0, "tensor_instructions": 1000.0} for arm in arms}
        tables = planted.measured({"full": arms}, work=work)
        if change:
            change(tables)
        variants = planted.ladder_variants()
        variants["score_only"]["expects"] = json.loads(json.dumps(expects))
        return planted.recording(tmp_path / "planted", tables, variants)

    return make


def only(recording: Recording) -> pd.Series:
    found = claims([recording])
    assert len(found) == 1
    return found.iloc[0]


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(0.7, 0.9, "supported"), (0.9, 1.0, "refuted"), (0.1, 0.5, "refuted"), (0.5, RATIO, "undecided")],
    ids=["inside", "below it", "above it", "across an end"],
)
def test_an_interval_decides(recorded: Callable[..., Recording], low: float, high: float, word: str) -> None:
    row = only(recorded({"planted": {"time_ratio": (low, high)}}))
    assert row["claim"] == word, row["reason"]
    assert row["low"] < RATIO < row["high"]
    assert f"[{low:.4f}, {high:.4f}]" in row["reason"]


def test_each_quantity_has_its_own_row(recorded: Callable[..., Recording]) -> None:
    found = claims([recorded({"planted": {"time_ratio": (0.7, 0.9), "exposed_ns": (0.0, 1e5)}})])
    assert found.set_index("quantity")["claim"].to_dict() == {"time_ratio": "supported", "exposed_ns": "refuted"}


def test_an_expectation_of_another_machine_decides_nothing(recorded: Callable[..., Recording]) -> None:
    row = only(recorded({"h200": {"time_ratio": (0.7, 0.9)}}))
    assert row["claim"] == "undecided"
    assert row["reason"] == "the expectation speaks of h200, this was measured on planted"


@pytest.mark.parametrize(
    ("sizes", "beyond"),
    [
        ({}, ""),
        ({"q": (64, 4096), "n": (8192, 8192)}, ""),
        ({"q": (65, 4096)}, "q = 64, written for 65 to 4096"),
        ({"q": (1, 63), "n": (1, 8191)}, "q = 64, written for 1 to 63; n = 8192, written for 1 to 8191"),
    ],
    ids=["no sizes", "the ends count", "one beyond", "both beyond"],
)
def test_an_expectation_of_other_sizes_decides_nothing(
    recorded: Callable[..., Recording], sizes: dict[str, Any], beyond: str
) -> None:
    recording = recorded({"planted": {"time_ratio": (0.9, 1.0), **sizes}})
    row, answer = only(recording), answers(recording).set_index("arm").loc["score_only"]
    word = "undecided" if beyond else "refuted"
    assert (row["claim"], answer["expectation"]) == (word, word)
    assert row["reason"] == (beyond or f"[{row['low']:.4f}, {row['high']:.4f}] lies outside [0.9000, 1.0000]")
    assert answer["expected"] == "; ".join(filter(None, ["time_ratio in [0.9, 1]", beyond]))
    assert np.isnan(answer["expected_ratio_low"]) == bool(beyond)
    assert [c["detail"] for c in row["checks"] if c["check"] == "sizes"] == ([beyond] if beyond else [])


def test_what_can_be_declared_can_be_judged() -> None:
    assert set(MEASURED) == set(EXPECTED)


def _unequal(tables: dict[str, pd.DataFrame]) -> None:
    runs, counters = tables["runs"], tables["counters"]
    one = runs.loc[runs["arm"] == "score_only", "run"].iloc[0]
    counters.loc[(counters["run"] == one) & (counters["metric"] == "tensor_instructions"), "value"] -= 1


def _absent(tables: dict[str, pd.DataFrame]) -> None:
    tables["counters"] = tables["counters"][tables["counters"]["metric"] != "tensor_instructions"]


def _limited(tables: dict[str, pd.DataFrame]) -> None:
    tables["times"]["flags"] = "clock-limited"


def _wrong(tables: dict[str, pd.DataFrame]) -> None:
    runs = tables["runs"]
    tables["checks"].loc[tables["checks"]["run"] == runs.loc[runs["arm"] == "score_only", "run"].iloc[-1], "passed"] = (
        False
    )


def _two_modes(tables: dict[str, pd.DataFrame], every: int = 7) -> None:
    """Of 20 runs of `score_only`, 3 take twice as long, or more of them."""
    runs = tables["runs"]
    slow = runs.loc[runs["arm"] == "score_only", "run"].iloc[::every]
    tables["times"].loc[tables["times"]["run"].isin(slow), "time_ns"] *= 2


@pytest.mark.parametrize(
    ("change", "check", "reason"),
    [
        (_unequal, "equal work", "unequal work: tensor_instructions"),
        (_absent, "equal work", "tensor_instructions: not checked"),
        (_limited, "clocks", "clock-limited"),
        (_two_modes, "modes", "two modes"),
        (_wrong, "contrast", "wrong output: score_only failed"),
    ],
    ids=["unequal work", "work not counted", "clock-limited", "two modes", "wrong output"],
)
def test_a_planted_fault_leaves_it_undecided(
    recorded: Callable[..., Recording], change: Callable[..., None], check: str, reason: str
) -> None:
    row = only(recorded({"planted": {"time_ratio": (0.01, 5.0)}}, change))
    assert row["claim"] == "undecided"
    assert reason in row["reason"]
    assert [c["passed"] for c in row["checks"] if c["check"] == check] == [False]


@pytest.mark.parametrize(
    ("expected", "word"), [((0.01, 5.0), "supported"), ((3.0, 5.0), "refuted"), ((0.01, 1.3), "undecided")]
)
def test_modes_that_do_not_turn_an_expectation_are_only_said(
    recorded: Callable[..., Recording], expected: tuple[float, float], word: str
) -> None:
    recording = recorded({"planted": {"time_ratio": expected}}, lambda tables: _two_modes(tables, 3))
    row, answer = only(recording), answers(recording).set_index("arm").loc["score_only"]
    assert (row["claim"], answer["expectation"]) == (word, word)
    assert row["high"] < 1.3 < answer["modes_time_ratio_high"]
    (modes,) = (check for check in row["checks"] if check["check"] == "modes")
    assert modes["passed"] == (word != "undecided")
    assert modes["detail"].startswith("score_only: two modes: ")
    assert modes["detail"].endswith(f", {answer['modes_time_ratio_high']:.4f}] over all of them")
    assert (modes["detail"] in row["reason"]) == (word == "undecided")


def test_the_base_the_null_arm_and_arms_without_expectations_claim_nothing(recorded: Callable[..., Recording]) -> None:
    assert claims([recorded({})]).empty


@pytest.mark.parametrize("machine", ["planted", "h200"])
def test_a_quantity_that_nothing_measures_is_refused(recorded: Callable[..., Recording], machine: str) -> None:
    with pytest.raises(InputError, match="joules"):
        claims([recorded({machine: {"joules": (0, 1)}})])


def test_only_refuted_ones_are_overturned(recorded: Callable[..., Recording]) -> None:
    found = claims([recorded({"planted": {"time_ratio": (0.7, 0.9), "exposed_ns": (0.0, 1e5)}})])
    assert overturned(found)["quantity"].tolist() == ["exposed_ns"]


def test_claims_and_answers_say_the_same_of_a_committed_recording() -> None:
    recording = open_recording(TRACES / "h200-index-topk-32k")
    key = ["question", "arm", "scope", "stage"]
    words = answers(recording).set_index(key)["expectation"]
    found = claims([recording])
    assert len(found)
    for row in found.to_dict("records"):
        assert row["claim"] == words[tuple(row[k] for k in key)], row
