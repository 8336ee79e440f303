"""The complete operator of index_topk and what it is compared with, on inputs of one size: arms, their check, their paired times.

In: a Hopper GPU with torch; DeepGEMM and other projects' selectors where they are installed.  Out: milliseconds by arm and round.
Every round runs all arms in a fresh random order, as graph replays.  Each operator that selects is checked against the reference
before its first and after its last timed round.  The arms of the project's own kernels share memory (measure/memory.py), so that
none is faster by where its own lies.
Misuse: times of another run are no partner of these: the card's clock follows its power.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from attribution.build import build
from attribution.declare import Flags
from attribution.launch import Call, Launch, Operator
from attribution.load import load_kernel, module_of, shipped_root
from attribution.measure.memory import SharedMemory
from attribution.measure.prepared import Module, Prepared
from bench.gpu import ROUNDS, graph, normal
from bench.topk_gpu import others

SEED = 101
SCORE_ONLY: dict[str, Any] = {"FILTER": False, "SELECT": False, "EMIT": False}
UNFUSED: dict[str, Any] = {"STORE_SCORES": True, **SCORE_ONLY, "SELECTOR": "topk"}
"""A scorer, then the fastest selector of docs/selectors.md."""
Times = dict[str, list[float]]


def nothing() -> None: ...


class Arm(NamedTuple):
    """What is timed, and what runs right before it each time and is not."""

    replay: Callable[[], None]
    before: Callable[[], None] = nothing


def whole(prepared: Prepared) -> Arm:
    return Arm(prepared.graph())


def main_alone(prepared: Prepared) -> Arm:
    """Main reads what the stages before it left: behind its own operator, as arms share memory."""
    return Arm(prepared.graph("main"), prepared.graph())


class Shape:
    """Inputs of one size, and the arms that are timed on them."""

    def __init__(self, rows: int, keys: int) -> None:
        self.kernel = load_kernel(shipped_root(), "index_topk")
        self.gpu = module_of(self.kernel, "gpu")
        self.size, self.inputs = {"q": rows, "n": keys}, normal(rows, keys, SEED + rows + keys)
        self.flags = self.kernel.resolve_flags({})
        self.memory = SharedMemory()
        self.kept: list[Prepared] = []  # a graph does not keep its tensors alive
        self.full = self.arm()
        self.checked: list[Prepared] = []
        self.wrong: list[str] = []
        self.check(self.full)

    def arm(self, leave_out: str = "", **overrides: Any) -> Prepared:
        flags = self.kernel.resolve_flags(overrides)
        with self.memory.arm():
            made = self.gpu.operator(self.inputs, self.size, flags, {})
        return self.ready(replace(made, steps=tuple(s for s in made.steps if s.stage != leave_out)), flags)

    def ready(self, made: Operator, flags: Flags) -> Prepared:
        """These steps with the build of `flags`, where there are launches of one."""
        launches = any(isinstance(step, Launch) for step in made.steps)
        module = Module(build(self.kernel, flags)) if launches else None
        prepared = Prepared(self.kernel, made, module, int(flags["TRACE"]))
        self.kept.append(prepared)
        return prepared

    def check(self, prepared: Prepared) -> None:
        """Run it once and compare; `times` does it again behind the last round."""
        if prepared not in self.checked:
            self.checked.append(prepared)
        prepared.poison()
        prepared.run()
        want = self.gpu.reference(self.inputs, self.size, self.flags)
        found = self.gpu.check(self.inputs, prepared.operator.output, want, self.size, self.flags)
        self.wrong += [f"{c.name}: {c.detail}" for c in found if not c.passed]

    def failed_rows(self) -> int:
        """Rows that the operator repairs; run for this, as another arm may have run in its memory since."""
        self.full.run()
        return self.full.operator.counts["repair", "repaired_rows"]()

    def scratch_bytes(self) -> int:
        kept = {t.data_ptr() for t in (*self.inputs.values(), self.full.operator.output["indices"])}
        return sum(t.numel() * t.element_size() for t in self.full.tensors() if t.data_ptr() not in kept)

    def scorer(self) -> Arm | None:
        """DeepGEMM's scorer alone, or None where it is not installed."""
        try:
            made = graph(module_of(self.kernel, "baselines").deep_gemm_scorer(self.inputs))
        except ImportError:
            return None
        return Arm(lambda: made.replay())

    def unfused(self, scorer: str) -> Arm:
        """The pipeline of this scorer (`own` or `deep_gemm`), checked."""
        made = self.arm(**UNFUSED, SCORER=scorer)
        self.check(made)
        return whole(made)

    def others(self) -> dict[str, Arm]:
        """The pipelines of the own scorer with each selector of another project that is installed, checked."""
        flags = self.kernel.resolve_flags(UNFUSED)
        with self.memory.arm():
            made = module_of(self.kernel, "operator").make(self.inputs, flags, {})
        problem = {"scores": made.scores, "start": self.inputs["k_start"], "end": self.inputs["k_end"]}
        arms = {}
        for name, selection in others(problem, self.gpu.ARCH).items():
            steps = (*made.launches, Call("select", selection.run))
            prepared = self.ready(Operator(steps, {"indices": selection.output["indices"]}), flags)
            self.check(prepared)
            arms[f"unfused_own with {name}"] = whole(prepared)
        return arms

    def times(self, more: dict[str, Arm]) -> Times:
        again = self.arm()
        self.check(again)
        arms = {"full": whole(self.full), "again": whole(again), "main": main_alone(self.full), **more}
        arms |= {"unfused_own": self.unfused("own"), **self.others()}
        if scorer := self.scorer():
            arms |= {"scorer": scorer, "unfused_deep_gemm": self.unfused("deep_gemm")}
        found = paired(arms)
        for prepared in self.checked:
            self.check(prepared)
        return found


def pipeline_of(arm: str) -> str:
    """`own scorer and kernel topk` of the arm `unfused_own`."""
    scorer, _, selector = arm.removeprefix("unfused_").partition(" with ")
    return f"{scorer} scorer and {selector or 'kernel topk'}"


def paired(arms: dict[str, Arm]) -> Times:
    """Milliseconds of every round by arm; the replays of a round follow each other without a pause."""
    import torch

    for arm in arms.values():
        arm.before()
        arm.replay()
    times: Times = {name: [] for name in arms}
    order, shuffle = list(arms), random.Random(0)
    for _ in range(ROUNDS):
        shuffle.shuffle(order)
        stamps = {n: [torch.cuda.Event(enable_timing=True) for _ in range(2)] for n in order}
        for name in order:
            arms[name].before()
            stamps[name][0].record()
            arms[name].replay()
            stamps[name][1].record()
        torch.cuda.synchronize()
        for name, (begin, end) in stamps.items():
            times[name].append(begin.elapsed_time(end))
    return times
