"""The arms of the goals without a GPU: each operator is checked, and named by its parts."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from attribution.declare import Check
from bench import pipelines


class Found:
    """Stands for a kernel's GPU module: the output of an operator is what its check says."""

    def reference(self, *_: object) -> None: ...

    def check(self, inputs: object, output: list[bool], *_: object) -> list[Check]:
        return [Check("planted", output[0], "wrong")]


class Arm:
    """An operator whose output goes wrong while it is timed."""

    def __init__(self) -> None:
        self.operator, self.runs = SimpleNamespace(output=[True]), 0

    def poison(self) -> None: ...

    def run(self) -> None:
        self.runs += 1

    def graph(self, stage: str = "operator") -> object:
        return lambda: None


def test_each_operator_that_selects_is_checked_again_behind_the_last_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: one goes wrong meanwhile, in turn the fused one, the same again, and each unfused pipeline."""
    for broken in range(4):
        made: list[Any] = [Arm() for _ in range(4)]
        shape = object.__new__(pipelines.Shape)
        shape.__dict__.update(gpu=Found(), inputs={}, size={}, flags={}, checked=[], wrong=[], full=made[0])
        waiting = iter(made[1:])
        shape.__dict__.update(
            arm=lambda waiting=waiting, **_: next(waiting), scorer=lambda: pipelines.Arm(lambda: None)
        )
        shape.__dict__.update(others=dict)

        def timed(arms: dict[str, object], arm: Arm = made[broken]) -> dict[str, list[float]]:
            arm.operator.output[0] = False
            return {name: [1.0] for name in arms}

        monkeypatch.setattr(pipelines, "paired", timed)
        shape.check(made[0])
        shape.times({})
        assert [arm.runs for arm in made] == [2, 2, 2, 2]
        assert shape.wrong == ["planted: wrong"]


@pytest.mark.parametrize(
    ("arm", "pipeline"),
    [
        ("unfused_own", "own scorer and kernel topk"),
        ("unfused_deep_gemm", "deep_gemm scorer and kernel topk"),
        ("unfused_own with flashinfer", "own scorer and flashinfer"),
    ],
)
def test_a_pipeline_is_named_by_its_scorer_and_its_selector(arm: str, pipeline: str) -> None:
    assert pipelines.pipeline_of(arm) == pipeline


def test_the_own_scorer_is_measured_with_every_selector_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is checked, writes into what is checked, and reads the scorer's matrix."""
    asked, checked = [], []
    out, scores, run = object(), object(), lambda: None

    def others(problem: dict[str, Any], arch: str) -> dict[str, Any]:
        asked.append((problem["scores"], arch))
        return {"one": SimpleNamespace(run=run, output={"indices": out})}

    made = SimpleNamespace(scores=scores, launches=("launch",))
    monkeypatch.setattr(pipelines, "others", others)
    monkeypatch.setattr(pipelines, "module_of", lambda kernel, name: SimpleNamespace(make=lambda *given: made))
    monkeypatch.setattr(pipelines, "build", lambda kernel, flags: "build")
    monkeypatch.setattr(pipelines, "Module", lambda made: made)
    monkeypatch.setattr(
        pipelines,
        "Prepared",
        lambda kernel, operator, module, level: SimpleNamespace(operator=operator, graph=lambda: run),
    )
    shape = object.__new__(pipelines.Shape)
    shape.__dict__.update(
        kernel=SimpleNamespace(resolve_flags=lambda flags: {**flags, "TRACE": 0}),
        gpu=SimpleNamespace(ARCH="sm_90a"),
        inputs={"k_start": 0, "k_end": 1},
        memory=SimpleNamespace(arm=nullcontext),
        kept=[],
        check=checked.append,
    )
    arms = shape.others()
    assert arms == {"unfused_own with one": pipelines.Arm(run)}
    assert asked == [(scores, "sm_90a")]
    assert [p.operator.output for p in checked] == [{"indices": out}]
    assert [step if isinstance(step, str) else step.stage for step in checked[0].operator.steps] == ["launch", "select"]


class Logged:
    """Stands for a `Prepared`: says what was run and replayed."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.operator = SimpleNamespace(counts={("repair", "repaired_rows"): lambda: log.append("count") or 3})

    def run(self) -> None:
        self.log.append("run")

    def graph(self, stage: str = "operator") -> Any:
        return lambda: self.log.append(stage)


def test_main_alone_is_timed_behind_its_own_operator_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs before lies outside the two events of a round."""
    log: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None: ...

        def record(self) -> None:
            log.append("event")

        def elapsed_time(self, other: object) -> float:
            return 1.0

    torch: Any = ModuleType("torch")
    torch.cuda = SimpleNamespace(Event=Event, synchronize=lambda: log.append("sync"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    found = pipelines.paired({"main": pipelines.main_alone(Logged(log))})  # type: ignore[arg-type]
    assert found == {"main": [1.0] * pipelines.ROUNDS}
    assert log == ["operator", "main"] + ["operator", "event", "main", "event", "sync"] * pipelines.ROUNDS


def test_failed_rows_are_those_of_an_execution_of_its_own() -> None:
    """In memory that arms share another arm may have run since."""
    log: list[str] = []
    shape = object.__new__(pipelines.Shape)
    shape.__dict__.update(full=Logged(log))
    assert shape.failed_rows() == 3
    assert log == ["run", "count"]
