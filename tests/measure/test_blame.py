"""Who is left out after a lost worker: the arm that also ends one alone, not the one at whose turn it showed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from faked import ROUNDS, measured, planned

from attribution.claim import answers
from attribution.declare import Check, Kernel, Variant
from attribution.errors import MeasureError
from attribution.measure.blame import MOST_LOST, Blame
from attribution.measure.job import Job
from attribution.measure.machine import Measured
from attribution.measure.outcome import Outcome
from attribution.measure.points import points
from attribution.measure.process import Ended
from attribution.partial import Partial
from attribution.plan import Arm


def test_an_innocent_arm_at_whose_turn_the_context_was_lost_stays(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: `scalar` runs well and spoils the context for whatever runs next."""
    made = measured(hello, variants, tmp_path / "a", monkeypatch, "scalar:spoil")
    runs = made.table("runs").astype({"arm": str, "status": str})
    assert set(runs.loc[runs["arm"].isin(["vector", "null"]), "status"]) == {"ok"}
    mine = runs[runs["arm"] == "scalar"]
    assert mine["status"].tolist() == ["failed"] + ["skipped"] * (ROUNDS - 1)
    assert "illegal memory access" in mine["reason"].iloc[0]
    assert mine["reason"].iloc[1].startswith("run ")
    assert answers(made, "operator").set_index("arm").loc["scalar", "verdict"] == "void"
    assert [lost[1] for lost in made.manifest["measuring"]["lost"]] == ["scalar"]


@pytest.mark.parametrize(
    ("fault", "reason"), [("lost", "illegal memory access"), ("die", "died of SIGKILL"), ("hang", "hang: no progress")]
)
def test_no_arm_is_blamed_for_what_the_ceilings_did(
    hello: Kernel,
    variants: dict[str, Variant],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    reason: str,
) -> None:
    """Planted: the ceilings behind the first round end their worker."""
    timeout_s = 3.0 if fault == "hang" else 30.0
    made = measured(hello, variants, tmp_path / "a", monkeypatch, f"ceilings:{fault}", timeout_s=timeout_s)
    assert set(made.table("runs")["status"]) == {"ok"}
    assert len(made.table("runs")) == 3 * ROUNDS
    ((question, who, told),) = made.manifest["measuring"]["lost"]
    assert (question, who) == ("", "ceilings")
    assert reason in told
    assert "ceiling" not in set(made.table("counters")["stage"].astype(str))


def test_a_check_of_an_output_that_ends_the_worker_is_that_arms(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the first arm's output is what the worker dies of, when all arms of the round were timed already."""
    began: list[str] = []

    class Case:
        seed, hash = 1, "1"

        def check(self, arm: Arm, output: object) -> list[Check]:
            assert began[-1] == arm.name
            return []

    asked = planned(hello, variants)
    arms = asked.questions[0].arms
    runs = [run for run in asked.runs() if run.round == 0]

    class Machine:
        primary, traced_rounds, together = ("graph", "operator"), 0, True

        def measure(self, some: Sequence[Arm], case: object, tell: Callable[[int], None]) -> list[Measured]:
            for i in range(len(some)):
                tell(i)
            return [Measured("right", {}) for _ in some]

    job: Any = Job(asked, hello, Machine(), None, began=lambda run: began.append(run.arm.name))  # type: ignore[arg-type]
    job.case = Case()
    job._measure([(run, Outcome(0)) for run in runs])
    assert len(began) == 2 * len(arms)


def test_an_arm_that_ends_no_worker_alone_is_left_out_after_several_and_its_reason_says_so(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: `scalar` ends its worker, but only one that has run for a while."""
    made = measured(hello, variants, tmp_path / "a", monkeypatch, "scalar:flaky", rounds=12)
    runs = made.table("runs").astype({"arm": str, "status": str})
    assert set(runs.loc[runs["arm"] != "scalar", "status"]) == {"ok"}
    failed = runs[runs["status"] == "failed"]
    assert failed["arm"].tolist() == ["scalar"]
    assert f"{MOST_LOST} workers ended at its turn, though no arm ends one alone" in failed["reason"].iloc[0]
    # Every worker got further: what was measured before is kept.
    assert (runs.loc[runs["arm"] == "scalar", "status"] == "ok").sum() >= MOST_LOST


def blamed(tmp_path: Path, hello: Kernel, variants: dict[str, Variant], guilty: str) -> tuple[Blame, list[str]]:
    """A Blame over two points whose arm `guilty` ends a worker alone; and who was tried."""
    tried: list[str] = []
    plan = planned(hello, variants)
    partial = Partial(tmp_path / "a", {"k": 1}, False)

    def alone(key: tuple[int, str, str]) -> Ended:
        tried.append(key[2])
        return Ended("lost", 0, "died") if key[2] == guilty else Ended("finished")

    return Blame(points(partial, [plan, plan], 1), partial, alone), tried


def test_suspects_are_tried_from_the_turn_backwards_and_a_traced_build_with_traced_ones(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path
) -> None:
    blame, tried = blamed(tmp_path, hello, variants, "nobody")
    first = [(n, r) for n, r in blame.points[1].runs.items() if r.round == 0 and not r.arm.name.endswith("+trace")]
    assert blame.of(Ended("lost", first[1][0], "hang")) is None
    names = [run.arm.name for _, run in first]
    assert tried == [names[1], names[0], names[2]]
    tried.clear()
    traced = next(n for n, r in blame.points[0].runs.items() if r.arm.name == "scalar+trace")
    blame.of(Ended("lost", traced, "hang"))
    assert sorted(tried) == ["scalar+trace", "vector+trace"]


def test_the_guilty_arm_is_left_out_at_its_own_point_only(
    hello: Kernel, variants: dict[str, Variant], tmp_path: Path
) -> None:
    blame, tried = blamed(tmp_path, hello, variants, "scalar")
    number = next(n for n, r in blame.points[1].runs.items() if r.arm.name == "null")
    out = blame.of(Ended("lost", number, "illegal address"))
    assert out is not None
    assert out[:3] == (1, "vector", "scalar")
    assert out[3].endswith("ended its worker: died")
    assert tried[0] == "null"
    row = blame.partial.table("runs").iloc[0]
    assert (row["arm"], row["status"], row["reason"]) == ("scalar", "failed", "died")
    assert row["run"] in blame.points[1].runs
    tried.clear()
    assert blame.of(Ended("lost", number, "illegal address")) is None
    assert "scalar" not in tried  # left out already


def test_what_is_no_arms_fault_is_a_sentence(hello: Kernel, variants: dict[str, Variant], tmp_path: Path) -> None:
    blame, _ = blamed(tmp_path, hello, variants, "scalar")
    with pytest.raises(MeasureError, match="before its first run: SIGSEGV"):
        blame.of(Ended("lost", None, "SIGSEGV"))
    with pytest.raises(MeasureError, match="too old"):
        blame.of(Ended("error", 3, "too old", {"kind": "MeasureError"}))
