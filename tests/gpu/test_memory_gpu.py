"""Arms of a measurement on a GPU have their scratch and outputs in the same memory, and their answers stay their own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attribution.analyze.pairing import scoped
from attribution.launch import Call, Operator
from attribution.load import load_kernel, load_variants
from attribution.measure import timing, watch
from attribution.measure.cuda import CudaMachine
from attribution.measure.jobfile import Options
from attribution.measure.memory import SharedMemory
from attribution.measure.prepared import Prepared
from attribution.measure.probe import Gpu, find
from attribution.measure.runs import planned_runs
from attribution.plan import Arm, Overrides, Plan, plan
from attribution.recording import Recording
from bench.gpu import compiled

GPU = find()
pytestmark = pytest.mark.skipif(not isinstance(GPU, Gpu), reason=str(GPU))


def planned(root: Path, names: list[str], q: int) -> Plan:
    """Of index_topk, its builds in the cache already: one after another they take minutes."""
    assert isinstance(GPU, Gpu)
    kernel, knobs = load_kernel(root, "index_topk"), {"sms": GPU.sms, "ctas": GPU.sms}
    asked = plan(kernel, load_variants(root, kernel), names, Overrides({"q": q, "n": 8192}, {}, knobs, rounds=2))
    compiled(kernel, (run.arm.flags for run in planned_runs(asked, 1)))
    return asked


def test_only_torch_empty_on_the_gpu_is_shared() -> None:
    import torch

    memory, made = SharedMemory(), []
    for _ in range(2):
        with memory.arm():
            one = torch.empty((3, 5), dtype=torch.float32, device="cuda")
            two = torch.empty(7, dtype=torch.int64, device=torch.device("cuda", 0))
            three = torch.empty([2, 3], dtype=torch.int8, device="cuda")
            own = (
                torch.zeros(4, device="cuda"),
                torch.full((2,), 3.0, device="cuda"),
                torch.empty(5, dtype=torch.int8),
                torch.empty((0, 3), dtype=torch.int32, device="cuda"),
            )
        assert (one.shape, one.dtype, two.shape, two.dtype) == ((3, 5), torch.float32, (7,), torch.int64)
        assert (three.shape, three.dtype, own[3].shape, own[3].dtype) == ((2, 3), torch.int8, (0, 3), torch.int32)
        made.append((one.data_ptr(), two.data_ptr(), three.data_ptr(), own))
    (first, second, third, mine), (again, twice, thrice, others) = made
    assert (first, second, third) == (again, twice, thrice)
    assert len({first, second, third}) == 3
    assert {t.data_ptr() for t in mine[:3]}.isdisjoint(t.data_ptr() for t in others[:3])
    assert torch.empty(4, device="cuda").data_ptr() not in (first, second)


def machine(root: Path, options: Options) -> tuple[CudaMachine, list[Arm], Any]:
    asked = planned(root, ["serial", "no_spill"], 132)
    made = CudaMachine(load_kernel(root, "index_topk"), asked, options, lambda *_, **__: None)
    return made, list(asked.questions[0].arms), made.case(1)


def pointers(prepared: Any) -> list[int]:
    """Of what an operator was given and leaves behind, inputs left out."""
    return [t.data_ptr() for t in prepared.tensors()]


def test_equal_builds_are_given_the_same_memory(root: Path) -> None:
    made, arms, case = machine(root, Options(scopes=("graph",)))
    inputs = {t.data_ptr() for t in case.inputs.values()}
    held = {arm.name: [p for p in pointers(made.prepare(arm, case.inputs)) if p not in inputs] for arm in arms}
    shared = set(held["full"]) & set(held["null"])
    assert len(shared) > len(held["full"]) / 2  # the others were made with values in them
    assert shared <= set(held["no_spill"])


def test_a_stage_alone_reads_what_its_own_operator_left(root: Path) -> None:
    """Of two arms with one memory main copies what the stage before it wrote there."""
    import torch

    made, _, _ = machine(root, Options(scopes=("graph",)))

    def arm(value: float) -> Prepared:
        with made.memory.arm():
            left = torch.empty(4, device="cuda")
        out = torch.zeros(4, device="cuda")
        steps = (Call("first", lambda: left.fill_(value)), Call("main", lambda: out.copy_(left)))
        return Prepared(made.kernel, Operator(steps, {"out": out}), None)

    both = [[arm(1.0)], [arm(2.0)]]
    timing.graph_samples(both, made.stamps, timing.Timed(2), ["main", "main"])
    assert [one.operator.output["out"].tolist() for (one,) in both] == [[1.0] * 4, [2.0] * 4]


def test_an_arm_that_relies_on_what_set_up_put_into_shared_memory_is_caught_alone(root: Path) -> None:
    """Planted: a table that is filled once, and by no step."""
    import torch

    made, (arm, *_), case = machine(root, Options(scopes=("graph",)))

    def operator(relies: bool) -> Operator:
        table, out = torch.empty(4, device="cuda").fill_(7.0), torch.empty(4, device="cuda")
        first = Call("first", lambda: None if relies else table.fill_(7.0))
        return Operator((first, Call("main", lambda: out.copy_(table))), {"out": out})

    for relies in (False, True):
        made.module = SimpleNamespace(operator=lambda *_, relies=relies: operator(relies))  # type: ignore[assignment]
        assert (made.output(arm, case)["out"].tolist() == [7.0] * 4) is not relies


def test_copies_for_a_cold_cache_have_memory_of_their_own(root: Path) -> None:
    made, arms, case = machine(root, Options(scopes=("graph",), cache="cold"))
    first, *others = (pointers(one) for one in made.copies(arms[0], case.inputs))
    assert others
    assert all(set(first).isdisjoint(other) for other in others)


def test_every_arm_is_checked_on_what_it_left_itself(root: Path, tmp_path: Path) -> None:
    """Arms of other sizes and layouts, an unfused one among them, in one memory."""
    kernel = load_kernel(root, "index_topk")
    asked = planned(root, ["serial", "shared", "block_q_1", "unfused", "score_only"], 133)
    options = Options(scopes=("event", "graph"), traced_rounds=1, timeout_s=60.0)
    made: Recording = watch.execute(
        asked, kernel, load_variants(root, kernel), tmp_path / "a", lambda *_: None, options
    )
    assert set(made.table("runs")["status"]) == {"ok"}
    assert made.table("checks")["passed"].all()
    assert len(scoped(made.table("times"), "graph"))
