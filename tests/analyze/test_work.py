"""Equal work and right labels, one counter row and one run at a time."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from attribution.analyze import work

COUNTED = ("metric", "run", "stage", "scope", "instance", "state", "value")
RAN = ("arm", "variant", "run", "inputs", "flags", "knobs", "build")


def runs(*rows: tuple[Any, ...]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(RAN))


def checked(counted: list[tuple[Any, ...]], inputs: str = "i") -> work.WorkCheck:
    """Of `mma` of full (run 1) and x (run 2), from (run, stage, scope, instance, value)."""
    ran = runs(("full", "full", 1, "i", "{}", "{}", "a"), ("x", "x", 2, inputs, "{}", "{}", "b"))
    table = pd.DataFrame([("mma", *row[:4], "value", row[4]) for row in counted], columns=list(COUNTED))
    (found,) = work.equal_work(ran, table, "full", "x", ["mma"], "main")
    return found


@pytest.mark.parametrize(
    ("counted", "equal", "text"),
    [
        ([(1, "main", "ncu", "", 8.0), (2, "main", "ncu", "", 8.0)], True, "8 = 8"),
        # Launches of one run are added up.
        ([(1, "main", "ncu", "", 8.0), (2, "main", "ncu", "", 3.0), (2, "main", "ncu", "", 5.0)], True, "8 = 8"),
        # Instances and scopes are compared one by one, also where their sums are equal.
        ([(1, "main", "ncu", "0", 3.0), (1, "main", "ncu", "1", 5.0), (2, "main", "ncu", "0", 5.0), (2, "main", "ncu", "1", 3.0)],
         False, "8 != 8"),
        ([(1, "main", "ncu", "", 3.0), (1, "main", "own", "", 5.0), (2, "main", "ncu", "", 5.0), (2, "main", "own", "", 3.0)],
         False, "8 != 8"),
        ([(1, "one", "ncu", "", 3.0), (1, "two", "ncu", "", 5.0), (2, "one", "ncu", "", 5.0), (2, "two", "ncu", "", 3.0)],
         False, "8 != 8"),
        # What only one arm has is a difference.
        ([(1, "main", "ncu", "0", 8.0), (2, "main", "ncu", "0", 8.0), (2, "main", "ncu", "1", 1.0)], False, "8 != 9"),
        # Unless it did nothing there.
        ([(1, "main", "ncu", "0", 8.0), (2, "main", "ncu", "0", 8.0), (2, "main", "ncu", "1", 0.0)], True, "8 = 8"),
        # One is work; and one instance without any beside one that has some is as well.
        ([(1, "main", "ncu", "", 1.0), (2, "main", "ncu", "", 1.0)], True, "1 = 1"),
        ([(1, "main", "ncu", "0", 0.0), (1, "main", "ncu", "1", 8.0), (2, "main", "ncu", "0", 0.0), (2, "main", "ncu", "1", 8.0)],
         True, "8 = 8"),
        # Counters of the stage count, where it has any.
        ([(1, "main", "ncu", "", 8.0), (2, "main", "ncu", "", 8.0), (2, "merge", "ncu", "", 1.0)], True, "8 = 8"),
        ([(1, "merge", "ncu", "", 8.0), (2, "merge", "ncu", "", 7.0)], False, "8 != 7"),
        ([(1, "main", "ncu", "", 8.0)], None, "not checked (8 against absent)"),
    ],
)  # fmt: skip
def test_work_is_equal_piece_by_piece(counted: list[tuple[Any, ...]], equal: bool | None, text: str) -> None:
    found = checked(counted)
    assert found.equal is equal
    assert str(found) == f"mma: {text}"


def test_work_on_other_inputs_tells_nothing() -> None:
    found = checked([(1, "main", "ncu", "", 8.0), (2, "main", "ncu", "", 8.0)], inputs="j")
    assert str(found) == "mma: not checked (no inputs in common against no inputs in common)"


def test_a_third_arm_on_the_same_inputs_makes_none_in_common() -> None:
    """Planted: only the null arm had the inputs of x."""
    ran = runs(
        ("full", "full", 1, "i", "{}", "{}", "a"),
        ("null", "full", 3, "j", "{}", "{}", "a"),
        ("x", "x", 2, "j", "{}", "{}", "b"),
    )
    rows = [("mma", run, "main", "ncu", "", "value", 8.0) for run in (1, 2, 3)]
    (found,) = work.equal_work(ran, pd.DataFrame(rows, columns=list(COUNTED)), "full", "x", ["mma"], "main")
    assert found.equal is None


ONE, OTHER = '{"SELECT": true}', '{"SELECT": false}'


def labels(**changed: dict[str, str]) -> list[str]:
    """Reasons of full, its null arm and x, each run twice, where arms have what `changed` says instead."""
    rows = {
        "full": {"variant": "full", "flags": ONE, "knobs": "{}", "build": "a"},
        "null": {"variant": "full", "flags": ONE, "knobs": "{}", "build": "a"},
        "x": {"variant": "x", "flags": OTHER, "knobs": "{}", "build": "b"},
    }
    table = pd.DataFrame([{"arm": arm, **row, **changed.get(arm, {})} for arm, row in rows.items() for _ in range(2)])
    return work.wrong_labels(table, "full", "x", "null", {"full": {"SELECT": True}, "x": {"SELECT": False}})


def test_right_labels_are_no_reason() -> None:
    assert labels() == []
    assert labels(full={"build": ""}, null={"build": ""}, x={"build": ""}) == []  # a machine without builds


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"full": {"variant": "y"}}, "label: runs of arm full are of variant y"),
        ({"null": {"variant": "y"}}, "label: runs of arm null are of variant y"),
        ({"x": {"build": "a"}}, "label: full and x have unlike flags and one build a"),
        ({"null": {"build": "b"}}, "label: null arm null has other build than full"),
        ({"null": {"knobs": '{"ctas": 8}'}}, "label: null arm null has other knobs than full"),
        (
            {"x": {"flags": ONE}},
            "label: arm x ran with SELECT = True and is declared with False (1 flags differ)",
        ),
    ],
)
def test_each_wrong_label_is_said(changed: dict[str, dict[str, str]], reason: str) -> None:
    assert labels(**changed) == [reason]


def test_an_arm_that_did_not_run_has_no_label() -> None:
    one = pd.DataFrame([{"arm": "full", "variant": "full", "flags": ONE, "knobs": "{}", "build": "a"}])
    assert work.wrong_labels(one, "full", "x", "null", {"full": {"SELECT": True}, "x": {"SELECT": False}}) == []


def test_failed_and_missing_checks_are_counted_of_the_arm_alone() -> None:
    ran = pd.DataFrame({"arm": ["full", "x", "x"], "run": [1, 2, 3]})
    rows = [
        (1, "before", "exact", False, "row 7"),
        (2, "before", "exact", True, ""),
        (2, "after", "exact", False, "row 8"),
    ]
    rows += [(3, "before", "exact", False, "row 9"), (3, "after", "exact", False, "row 9")]
    checks = pd.DataFrame(rows, columns=["run", "when", "check", "passed", "detail"])
    assert work.failed_outputs(checks, ran, "x") == [
        "wrong output: x failed 3 of 4 checks, first exact (after timing, run 2): row 8"
    ]
    assert work.unchecked_output(checks, ran, "x") == []
    assert work.unchecked_output(checks, ran, "full") == ["output of full was not checked after its timing"]


def test_inputs_that_differ_are_counted_and_the_first_round_named() -> None:
    pairs = pd.DataFrame({"round": [3, 4, 5], "inputs_base": ["a", "b", "c"], "inputs_arm": ["a", "x", "y"]})
    assert work.unequal_inputs(pairs) == ["unequal inputs in 2 of 3 rounds, first round 4: b and x"]
    assert work.unequal_inputs(pairs.iloc[:1]) == []
