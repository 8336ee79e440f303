"""A budget that ended before the precision that was asked for decides nothing, however clear the interval looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import planted_gpu as planted
import pytest

from attribution.claim import answers
from attribution.claim.expectations import claims
from attribution.errors import DataError
from attribution.recording import Recording, open_recording, write_tables

ASKED = 0.002


def stopped(path: Path, **facts: Any) -> Recording:
    """A recording whose arm score_only is plainly faster, as expected, with these facts of how the rule ended."""
    arms = {name: planted.TIMES[name] for name in ("full", "score_only")} | {"null": planted.TIMES["full"]}
    work = {arm: {"tma_loads": 64.0, "tensor_instructions": 1000.0} for arm in arms}
    variants = planted.ladder_variants()
    variants["score_only"]["expects"] = {"planted": {"time_ratio": [0.01, 5.0]}}
    made = planted.recording(path / "plain", planted.measured({"full": arms}, work=work), variants)
    ended = {"precision": ASKED, "scope": "graph/operator", "reached": False, "reason": "", "half_widths": {}} | facts
    manifest = {k: v for k, v in made.manifest.items() if k not in ("schema", "protocol", "kind", "tables")}
    tables = {name: made.table(name) for name in made.table_names}
    return write_tables(path / "stopped", "run", tables, {**manifest, "stopping": ended})


@pytest.mark.parametrize(
    ("facts", "verdict", "word"),
    [
        ({"reached": True, "half_widths": {"full/score_only": 0.0019}}, "faster", "supported"),
        ({"half_widths": {"full/score_only": 0.0019, "full/null": 0.0021}}, "faster", "supported"),
        ({"half_widths": {"full/score_only": 0.0021, "full/null": 0.0019}}, "undecided", "undecided"),
        ({"half_widths": {"full/score_only": None}}, "undecided", "undecided"),
        ({}, "undecided", "undecided"),
    ],
    ids=["reached", "reached by this arm", "too wide", "no width", "less than one design"],
)
def test_a_spent_budget_leaves_the_arm_undecided(
    tmp_path: Path, facts: dict[str, Any], verdict: str, word: str
) -> None:
    made = stopped(tmp_path, **facts)
    answer = answers(made).set_index("arm").loc["score_only"]
    assert (answer["verdict"], answer["expectation"]) == (verdict, word), answer["reasons"]
    (claim,) = claims([made]).to_dict("records")
    assert claim["claim"] == word
    assert ("+-0.2 % was asked" in claim["reason"]) == (word == "undecided")


def test_what_is_void_stays_void(tmp_path: Path) -> None:
    made = stopped(tmp_path, half_widths={"full/score_only": 0.0021})
    tables = {name: made.table(name) for name in made.table_names}
    tables["checks"]["passed"] = False
    facts = {k: v for k, v in made.manifest.items() if k not in ("schema", "protocol", "kind", "tables")}
    assert set(answers(write_tables(tmp_path / "wrong", "run", tables, facts))["verdict"]) == {"void"}


def test_a_rule_that_ended_nowhere_is_refused(tmp_path: Path) -> None:
    for facts, sentence in (
        ({"reached": None}, "stopping.reached is null; allowed is true or false"),
        ({"half_widths": {"full/score_only": -1.0}}, "stopping.half_widths.full/score_only is -1.0"),
        ({"precision": 0}, "stopping.precision is 0"),
    ):
        with pytest.raises(DataError, match=sentence):
            stopped(tmp_path / str(len(list(tmp_path.iterdir()))), **facts)


def test_the_verb_says_so_where_it_measured(attr: Any, tmp_path: Path) -> None:
    """As it is typed: a precision that no machine has, and one design of rounds."""
    out = tmp_path / "rec"
    small = ("--shape", "q=6,n=2048", "--flag", "K=512,SEGMENT_CAPACITY=184", "--knob", "sms=2", "--machine", "host")
    done = attr("run", "--variant", "math_only", *small, "--precision", "0.001%", "--budget", 8, "--out", out)
    assert (done.code, "precision not reached" in done.out) == (0, True), done.err
    assert open_recording(out).manifest["stopping"]["reached"] is False
    assert set(answers(open_recording(out))["verdict"]) <= {"undecided", "void"}
    assert "+-0.001 % was asked, and when the budget ended" in attr("show", out).out
