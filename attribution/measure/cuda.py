"""The worker that measures on a GPU: `python -m attribution.measure.cuda JOB.json OUT`.  All launches are made here.

In: a job file (see worker.py); the kernel's GPU module (see launch.py).  Out: see worker.py.
Kernels are built by NVRTC and launched on torch's current stream; torch owns memory, events and graphs.
An error that leaves the context unusable ends this process: `MachineLost`; who started it starts another.
Misuse: never import this module to look something up; it is run as a child process.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attribution.build import Build, build
from attribution.declare import Kernel
from attribution.errors import MeasureError
from attribution.launch import Ceiling
from attribution.measure import ceilings, clocks, cold, facts, lost_work, ncu, stamp, timing, worker
from attribution.measure.context import guarded
from attribution.measure.cuda_case import CudaCase
from attribution.measure.jobfile import Options
from attribution.measure.machine import Case, Measured
from attribution.measure.memory import SharedMemory
from attribution.measure.points import gpu_module
from attribution.measure.prepared import POISON, Module, Prepared
from attribution.measure.profiled import PROFILES
from attribution.measure.traced import trace_tables
from attribution.plan import Arm, Plan, json_text

SETTLE_S = 0.1
STAMPS = 4096
"""Stamps that can be held until they are read: more than one turn puts."""
TURN_NS = 20e6
"""What the samples of one turn should take at most: after some 50 ms of work a card at its power limit slows down."""


class CudaMachine:
    """One GPU as a Machine."""

    together = True

    def __init__(self, kernel: Kernel, plan: Plan, options: Options, tell: worker.Tell) -> None:
        try:
            import torch
        except ImportError as error:
            raise MeasureError(f'torch is not installed: `pip install "attribution[gpu]"` ({error})') from error
        if not torch.cuda.is_available():
            raise MeasureError(
                "torch sees no CUDA device; --machine host runs the same variants on the reference machine"
            )
        torch.cuda.init()
        torch.zeros(1, device="cuda")  # makes the context current
        tell("doing", label="torch and the GPU are there")
        self.kernel, self.plan, self.options, self.tell = kernel, plan, options, tell
        self.module = gpu_module(kernel)
        self.arch = facts.arch_for(self.module, kernel)
        self.nvml = clocks.Nvml(pci_bus_id=facts.pci_bus_id())
        self.stamps = stamp.Stamps(self.arch, facts.properties().multiprocessor_count, STAMPS)
        self.primary = options.primary
        self.traced_rounds = options.traced_rounds
        self.memory = SharedMemory()
        self._builds: dict[str, Build] = {}
        self._modules: dict[str, Module] = {}
        self._prepared: dict[str, list[Prepared]] = {}
        self._took_ns: dict[str, float] = {}
        self._ceilings: tuple[Ceiling, ...] | None = None
        self._facts = guarded(lambda: facts.measured(self.stamps, self.nvml, self.arch))
        self._facts["metrics"] = {**ncu.METRICS, **getattr(self.module, "METRICS", {})}

    def facts(self) -> dict[str, Any]:
        return self._facts

    def case(self, seed: int) -> CudaCase:
        self.tell("doing", label=f"inputs of seed {seed}")
        return CudaCase(self.module, self.plan, seed)

    def build(self, arm: Arm) -> str:
        if self.kernel.source is None:
            return ""  # all of its steps are calls
        key = json_text(arm.flags)
        if key not in self._builds:
            self.tell("doing", label=f"building {arm.name}")
            self._builds[key] = build(self.kernel, arm.flags, self.arch)
        return self._builds[key].identity

    def builds(self) -> dict[str, str]:
        return {made.identity: made.code_sha256 for made in self._builds.values()}

    def lost_work(self, base: Arm, arm: Arm, same: Sequence[str]) -> str:
        opcodes = lost_work.opcodes_of(same, self._facts["metrics"])
        if not opcodes or self.kernel.source is None:
            return ""
        for one in (base, arm):
            self.build(one)
        return lost_work.lost_work(self._builds[json_text(base.flags)], self._builds[json_text(arm.flags)], opcodes)

    def prepare(self, arm: Arm, inputs: Mapping[str, Any]) -> Prepared:
        """The arm on these inputs, ready to run, in the memory that all arms share."""
        with self.memory.arm():
            return self._prepare(arm, inputs)

    def _prepare(self, arm: Arm, inputs: Mapping[str, Any]) -> Prepared:
        identity = self.build(arm)
        key = json_text(arm.flags)
        if identity and identity not in self._modules:
            self._modules[identity] = Module(self._builds[key])
        operator = self.module.operator(inputs, self.plan.shape, arm.flags, arm.knobs)
        return Prepared(self.kernel, operator, self._modules.get(identity), int(arm.flags.get("TRACE", 0)))

    def copies(self, arm: Arm, inputs: Mapping[str, Any]) -> list[Prepared]:
        """The arm ready to run once, or as often as a cold cache needs, each time on other memory."""
        with self.memory.arm():
            made = [self._prepare(arm, inputs)]
            if self.options.cache == "cold":
                bytes_each = sum(t.nbytes for t in made[0].tensors())
                for _ in range(cold.copies_for(bytes_each, self._facts["l2_bytes"]) - 1):
                    made.append(self._prepare(arm, {n: t.clone() for n, t in inputs.items()}))
        return made

    def output(self, arm: Arm, case: Case) -> Any:
        assert isinstance(case, CudaCase)

        def once() -> Any:
            prepared = self.prepare(arm, case.inputs)
            self.memory.poison(POISON)
            prepared.poison()
            prepared.run()
            return prepared.operator.output

        return guarded(once)

    def static(self, arm: Arm) -> Sequence[Mapping[str, Any]]:
        return facts.static(self._prepared[json_text(arm.facts())][0], arm)

    def ceilings(self) -> Sequence[Mapping[str, Any]]:
        named = getattr(self.module, "ceilings", None)
        if named is None:
            return ()
        if self._ceilings is None:
            self._ceilings = guarded(lambda: tuple(named()))
        return guarded(lambda: ceilings.counters(self._ceilings or (), self.stamps))

    def measure(self, arms: Sequence[Arm], case: Case, began: Callable[[int], None]) -> Iterable[Measured]:
        assert isinstance(case, CudaCase)
        return self._left(guarded(lambda: self._measure(arms, case, began)))

    def _copies(self, arm: Arm, case: CudaCase) -> list[Prepared]:
        """The arm's `copies` on the case's inputs, with their graphs; made once.

        Null arms of two bases share a name, and may share flags: knobs tell them apart.
        """
        key = json_text(arm.facts())
        if key not in self._prepared:
            mine = self.copies(arm, case.inputs)
            if "graph" in self.options.scopes:
                for one in mine:
                    for stage in self._graph_stages(one):
                        one.graph(stage)
            self._prepared[key] = mine
            self._took_ns[key] = timing.call_samples(mine[0].run, self.stamps, 1)[0].spans_ns[0]
        return self._prepared[key]

    def _graph_stages(self, prepared: Prepared) -> tuple[str, ...]:
        """The whole operator last: its output is what is checked."""
        there = (s for s in ("main", "operator") if s == "operator" or s in prepared.stages)
        return tuple(s for s in there if s in self.options.stages)

    def _longest_ns(self, arms: Sequence[Arm]) -> float:
        return max(self._took_ns[json_text(arm.facts())] for arm in arms)

    def _samples(self, arms: Sequence[Arm], sets: Sequence[Sequence[Prepared]]) -> int:
        """Samples of each arm in a turn: few where they take long, so that turns are short."""
        fit = max(1, min(self.options.samples, int(TURN_NS / self._longest_ns(arms))))
        most = max(len(copies) for copies in sets)
        return max(fit, most) if self.options.cache == "cold" else fit

    def _measure(
        self, arms: Sequence[Arm], case: CudaCase, began: Callable[[int], None]
    ) -> list[tuple[Prepared, dict[str, Any]]]:
        """Of each arm the copy that ran last, and what was measured."""
        import torch

        known, sets = len(self._prepared), []
        for i, arm in enumerate(arms):
            began(i)
            sets.append(self._copies(arm, case))
        if len(self._prepared) > known and "graph" in self.options.scopes:
            # A capture gives cached memory back, which the card then clears in the background: the first replays behind it were
            # 15 % slower (memory-bound kernel, all ten samples of the first batch, no other).
            torch.cuda.synchronize()
            time.sleep(SETTLE_S)
        samples = self._samples(arms, sets)
        if self.options.cache == "cold":
            for copies in sets:
                bytes_each = sum(t.nbytes for t in copies[0].tensors())
                cold.check_cold(bytes_each, len(copies), samples, self._facts["l2_bytes"])
        timed = timing.Timed(samples, self.options.rest, self._longest_ns(arms), began)
        if len(self._prepared) > known and not sets[0][0].level:
            # A round that does not count.  The card comes from checks and set-up, not from the rhythm of turns and rests (seen:
            # the first turn of a recording at 1650 MHz and 6.9 % slower than the arm's others; no later one beyond 3.2 %).
            self._rows(sets, timed)
        for one in (one for copies in sets for one in copies):
            one.renew_graphs()
        before = self.nvml.read()
        rows = self._rows(sets, timed)
        after = self.nvml.read()
        made = []
        for arm, copies, mine in zip(arms, sets, rows, strict=True):
            self._check_rates(arm, case, mine)
            last = copies[(samples - 1) % len(copies)]  # the warm-ups before are whole turns
            made.append((last, self._tables(copies[0], mine, before, after)))
        return made

    def _left(self, made: Sequence[tuple[Prepared, dict[str, Any]]]) -> Iterator[Measured]:
        """What each arm leaves behind, executed once more as it was timed: its memory is that of all arms."""
        for last, tables in made:
            yield guarded(lambda last=last, tables=tables: _once_more(last, tables))  # type: ignore[misc]

    def _rows(self, sets: Sequence[Sequence[Prepared]], timed: timing.Timed) -> list[list[timing.Row]]:
        """The samples of each arm in all timed scopes: one pass over the arms after another."""
        passes = []
        if "event" in self.options.scopes:
            passes += [timing.event_samples(sets, self.stamps, timed, stages) for stages in (True, False)]
        if "graph" in self.options.scopes:
            names = [self._graph_stages(copies[0]) for copies in sets]
            for place in range(-max(map(len, names)), 0):
                stages = [mine[max(place, -len(mine))] for mine in names]
                passes.append(timing.graph_samples(sets, self.stamps, timed, stages))
        return [[row for found in passes for row in found[i]] for i in range(len(sets))]

    def _tables(
        self, prepared: Prepared, rows: list[timing.Row], before: clocks.Reading, after: clocks.Reading
    ) -> dict[str, Any]:
        """What was measured of one run, without its `run` column."""
        import pandas as pd

        times = timing.times_rows(rows, self.options.cache, after)
        tables: dict[str, Any] = {
            "conditions": [{"when": "before", **before.row()}, {"when": "after", **after.row()}],
        }
        if prepared.level:
            total = next(iter(self.plan.shape.values()))
            found = trace_tables(self.kernel, prepared.trace(), total, self.options.cache)
            return {"times": pd.concat([pd.DataFrame(times), found.pop("times")], ignore_index=True), **tables, **found}
        return {"times": times, **tables}

    def _check_rates(self, arm: Arm, case: CudaCase, rows: list[timing.Row]) -> None:
        """A time that the memory cannot have done is refused.  Raises MeasureError."""
        least = getattr(self.module, "moved_bytes", None)
        if least is None:
            return
        moved = least(case.inputs, self.plan.shape, arm.flags)
        if self.options.cache != "cold":
            moved -= self._facts["l2_bytes"]  # as much may have been there already
        for row in rows:
            if row.stage == "operator":
                cold.check_rate(max(moved, 0), row.time_ns, self._facts["peak_memory_bytes_per_s"])


def _once_more(last: Prepared, tables: Mapping[str, Any]) -> Measured:
    last.poison()
    last.again()
    counted = {"counters": facts.counted(last), "capacity": facts.capacity(last)}
    return Measured(last.operator.output, {**tables, **counted})


if __name__ == "__main__":
    sys.exit(worker.serve(sys.argv[1:], CudaMachine, PROFILES))
