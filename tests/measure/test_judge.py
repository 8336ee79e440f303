"""What a stopping rule is fed: ratios of the primary scope and stage, paired by round, at the ends of whole designs."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from attribution.declare import Kernel, Variant
from attribution.measure.judge import Judge
from attribution.measure.stopping import Rule
from attribution.plan import Overrides, Plan, PlannedRun, plan

PRIMARY = ("graph", "operator")


@pytest.fixture(scope="module")
def asked(hello: Kernel, variants: dict[str, Variant]) -> Plan:
    """Three arms, so that a design is six rounds."""
    return plan(hello, variants, ["scalar"], Overrides({"rows": 8, "columns": 512}, {}, {}, rounds=12))


def rows(*times_ns: float, scope: str = "graph", stage: str = "operator") -> list[dict[str, Any]]:
    return [{"scope": scope, "stage": stage, "time_ns": time} for time in times_ns]


def time_of(run: PlannedRun) -> float:
    """The base takes 100 ns and one more a round, every other arm a tenth more than it."""
    return (100.0 + run.round) * (1.0 if run.arm.name == run.question else 1.1)


def test_ratios_are_those_of_the_primary_scope_and_stage_by_round(asked: Plan) -> None:
    judge = Judge(asked, Rule(0.002), PRIMARY)
    for run in asked.runs():
        time = time_of(run)
        others = rows(7.0, scope="event") + rows(3.0, stage="main")
        longest = 5.0 if run.arm.name == run.question else 2.0
        judge.take(run, rows(0.9 * time, time, longest * time) + others)  # the median of its samples
    (question,) = asked.questions
    assert set(judge.ratios()) == {f"{question.base}/{arm.name}" for arm in question.arms[1:]}
    for values in judge.ratios().values():
        assert values == pytest.approx([math.log(1.1)] * 12)


def test_a_round_without_its_pair_and_an_arm_without_times_hold_nobody_up(asked: Plan) -> None:
    judge = Judge(asked, Rule(0.002), PRIMARY)
    base, scalar, null = (arm.name for arm in asked.questions[0].arms)
    for run in asked.runs():
        if run.arm.name == null:
            judge.take(run, rows(1.0, scope="event"))
        elif (run.arm.name, run.round) not in {(base, 3), (scalar, 4)}:
            judge.take(run, pd.DataFrame(rows(time_of(run))))
    assert judge.ratios() == {f"{base}/{scalar}": pytest.approx([math.log(1.1)] * 10)}


def test_what_a_stopped_job_left_counts_and_runs_of_no_plan_do_not(asked: Plan) -> None:
    class Left:
        def table(self, name: str) -> pd.DataFrame:
            assert name == "times"
            runs = [(run.run, time_of(run)) for run in asked.runs()] + [(9999, 1.0)]
            return pd.DataFrame([row | {"run": number} for number, time in runs for row in rows(time)])

    judge = Judge(asked, Rule(0.002), PRIMARY)
    judge.resume(Left(), list(asked.runs()))  # type: ignore[arg-type]
    assert [*judge.ratios().values()] == [pytest.approx([math.log(1.1)] * 12)] * 2


def test_it_stops_at_the_end_of_a_whole_design_only(asked: Plan) -> None:
    judge = Judge(asked, Rule(0.1), PRIMARY)
    assert judge.facts()["reason"] == "less than one whole design was run"
    for run in asked.runs():
        judge.take(run, rows(time_of(run) * (1 + 1e-4 * run.run)))
    assert [number for number in range(12) if judge.stops(number)] == [5, 11]
    facts = judge.facts()
    assert (facts["precision"], facts["budget_s"], facts["scope"]) == (0.1, None, "graph/operator")
    assert facts["reached"] is True
    assert all(0 < width <= 0.1 for width in facts["half_widths"].values())
    assert facts["reason"] == judge.decision.reason  # type: ignore[union-attr]


def test_a_width_that_nobody_knows_is_null(asked: Plan) -> None:
    judge = Judge(asked, Rule(0.1, seconds=60.0), PRIMARY)
    assert (judge.facts()["reached"], judge.facts()["half_widths"], judge.facts()["budget_s"]) == (False, {}, 60.0)
    for run in asked.runs():
        judge.take(run, rows(time_of(run) if run.round < 2 else 0.0)[: run.round < 2])
    assert not judge.stops(5)
    assert set(judge.facts()["half_widths"].values()) == {None}
    assert judge.facts()["reached"] is False
