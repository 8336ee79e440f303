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


def asked(log: list[str], copies: int) -> tuple[Any, Plan, tuple[()]]:
    """A machine, a plan of a base with its null arm, and what was refused."""
    case = SimpleNamespace(inputs={}, hash="i", check=lambda arm, output: [])
    machine: Any = SimpleNamespace(case=lambda seed: case, build=lambda arm: "b", module=SimpleNamespace())
    machine.copies = lambda arm, inputs: [Prepared(log) for _ in range(copies)]
    base = Arm("full", "full", {}, {})
    plan = Plan("k", {"n": 1}, "normal", 1, 2, 0, (Question("full", (base, Arm("null", "full", {}, {}))),))
    return machine, plan, ()


def profile(
    log: list[str], folder: Path, stages: tuple[str, ...], copies: int = 1, options: Options | None = None
) -> list[dict[str, Any]]:
    """The steps that the worker says it launched for the base's first turn."""
    options = options or Options(scopes=("ncu",), stages=stages)
    arms = profiled.under_ncu(*asked(log, copies), options, folder, lambda *_, **__: None, 0)
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


def under_cupti(log: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, copies: int) -> None:
    """One arm under a profiler that only writes into the log."""

    class Graph:
        def __init__(self, keep_graph: bool) -> None:
            assert keep_graph

        def replay(self) -> None:
            log.append("replay")

    class Within:
        def __init__(self, name: str = "", **_: Any) -> None:
            self.name = name

        def __enter__(self) -> Within:
            log.append(f"[{self.name}")
            return self

        def __exit__(self, *_: object) -> None:
            log.append("]")

        def export_chrome_trace(self, file: str) -> None:
            Path(file).write_text('{"traceEvents": []}')

    profiler: Any = ModuleType("torch.profiler")
    profiler.ProfilerActivity = SimpleNamespace(CPU=0, CUDA=1)
    profiler.record_function, profiler.profile = Within, lambda activities: Within("profiler")
    cuda: Any = sys.modules["torch"].cuda
    cuda.CUDAGraph, cuda.graph = Graph, lambda graph: Within("capture")
    monkeypatch.setitem(sys.modules, "torch.profiler", profiler)
    seen = lambda trace, samples, steps, chain: [samples, *steps, chain]  # noqa: E731
    monkeypatch.setattr(profiled.cupti, "rows", seen)
    monkeypatch.setattr(profiled, "chain_length", lambda graph: isinstance(graph, Graph) and 3)
    arms = profiled.under_cupti(*asked(log, copies), Options(samples=2), folder, lambda *_, **__: None, 0)
    assert arms[0]["rows"] == [2, ("prepare", True), ("main", True), ("merge", True), 3]
    assert list(folder.iterdir()) == []


def test_cupti_sees_every_step_in_a_range_and_then_replays_each_in_one(
    log: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_cupti(log, tmp_path, monkeypatch, copies=1)
    steps = [x for i, s in enumerate(STEPS) for x in (f"[attr step={i}", s.entry, "]")]
    replays = [x for i in range(2) for x in (f"[attr replay={i}", "replay", "]")]
    # The outputs are wrong before the first replay, so that what is checked afterwards is what replays left behind.
    assert log == ["run", "poison", "[profiler", *steps, "[capture", "run", "]", "poison", "replay", *replays, "]"]


def test_a_cold_cache_is_made_cold_before_every_replay_and_outside_its_range(
    log: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_cupti(log, tmp_path, monkeypatch, copies=3)
    for sample in range(2):
        at = log.index(f"[attr replay={sample}")
        assert log[at - 2 : at + 3] == ["run", "run", f"[attr replay={sample}", "replay", "]"]
