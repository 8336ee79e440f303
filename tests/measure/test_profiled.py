"""What a profiler's worker launches inside named ranges, with stand-ins for the card and for torch."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from attribution.launch import Launch
from attribution.measure import profiled
from attribution.measure.jobfile import Options
from attribution.plan import Arm, Plan, Question

STEPS = tuple(Launch(stage, f"{stage}_kernel", (2, 1, 1), 32, 0, ()) for stage in ("prepare", "main", "merge"))


class Prepared:
    def __init__(self, log: list[str]) -> None:
        self.log, self.operator = log, SimpleNamespace(steps=STEPS, output={})

    def run(self) -> None:
        self.log.append("run")

    def poison(self) -> None:
        self.log.append("poison")

    def run_step(self, place: int) -> None:
        self.log.append(STEPS[place].entry)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []
    torch: Any = ModuleType("torch")
    torch.cuda = SimpleNamespace(synchronize=lambda: None)
    nvtx: Any = ModuleType("nvtx")
    nvtx.push_range, nvtx.pop_range = lambda name: made.append(f"[{name}"), lambda: made.append("]")
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    return made


def profile(
    log: list[str], folder: Path, stages: tuple[str, ...], copies: int = 1, options: Options | None = None
) -> list[dict[str, Any]]:
    """The steps that the worker says it launched for the base's first turn."""
    case = SimpleNamespace(inputs={}, hash="i", check=lambda arm, output: [])
    machine: Any = SimpleNamespace(case=lambda seed: case, build=lambda arm: "b", module=SimpleNamespace())
    machine.copies = lambda arm, inputs: [Prepared(log) for _ in range(copies)]
    base = Arm("full", "full", {}, {})
    plan = Plan("k", {"n": 1}, "normal", 1, 2, 0, (Question("full", (base, Arm("null", "full", {}, {}))),))
    asked = options or Options(scopes=("ncu",), stages=stages)
    arms = profiled.under_ncu(machine, plan, (), asked, folder, lambda *_, **__: None, 0)
    return list(arms[0]["steps"])


def test_every_step_is_launched_in_a_range_of_its_own_inside_the_one_that_is_profiled(
    log: list[str], tmp_path: Path
) -> None:
    steps = profile(log, tmp_path, ("main", "operator"))
    assert [s["stage"] for s in steps] == ["prepare", "main", "merge"]
    inner = "attr arm=0 step=1 stage=main"
    assert steps[1] == {"range": inner, "stage": "main", "kernel_name": "main_kernel", "grid": [2, 1, 1]}
    assert log[:2] == ["run", "poison"]
    assert log[7:12] == ["[attr", f"[{inner}", "main_kernel", "]", "]"]


def test_only_the_stages_that_were_asked_for_are_profiled_and_the_others_still_run(
    log: list[str], tmp_path: Path
) -> None:
    steps = profile(log, tmp_path, ("main",))
    assert [s["stage"] for s in steps] == ["main"]
    first = log[: log.index("run", 1)]  # the base has more turns
    inner = "[attr arm=0 step=1 stage=main"
    assert first == ["run", "poison", "prepare_kernel", "[attr", inner, "main_kernel", "]", "]", "merge_kernel"]


def test_stages_and_arms_of_a_profiler_can_be_fewer_than_those_that_are_timed(log: list[str], tmp_path: Path) -> None:
    named = Options(scopes=("graph", "ncu"), profiled_stages=("merge",), profiled_arms=("full", "serial"))
    assert [s["stage"] for s in profile(log, tmp_path, ("main", "operator"), options=named)] == ["merge"]
    assert [arm for arm in ("full", "null", "serial", "split") if named.profiles(arm)] == ["full", "serial"]
    assert [arm for arm in ("full", "null", "split") if Options().profiles(arm)] == ["full", "split"]
    with pytest.raises(IndexError):  # nobody is left
        profile(log, tmp_path, ("operator",), options=Options(profiled_arms=("split",)))


def test_a_cold_cache_is_made_cold_before_every_step(log: list[str], tmp_path: Path) -> None:
    profile(log, tmp_path, ("main", "operator"), copies=2)
    first = log[: log.index("poison", 3)]
    assert first[:3] == ["run", "run", "poison"]
    assert first.count("run") >= 2 + len(STEPS)
    assert first[3] == "run"


def test_a_base_has_as_many_turns_as_were_asked_for(log: list[str], tmp_path: Path) -> None:
    profile(log, tmp_path, ("main",))
    assert log.count("poison") == Options().base_turns == 3
    log.clear()
    profile(log, tmp_path, ("main",), options=Options(base_turns=1))
    assert log.count("poison") == 1
