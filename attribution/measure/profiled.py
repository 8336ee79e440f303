"""The worker's part of scopes ncu and cupti: every arm once more in a process of its own, each step or replay in a named range.

In: a CudaMachine, a plan, what was refused.  Out: facts of every arm, for `beside.py` to make rows of.
A profiler changes the process that it is attached to, so nothing is timed here in scopes event or graph.
Misuse: these run after the timed rounds and are not paired with them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribution.launch import Launch
from attribution.measure import cupti, ncu
from attribution.measure.context import guarded
from attribution.measure.graph import chain_length
from attribution.plan import Plan

if TYPE_CHECKING:
    from attribution.measure.cuda import CudaMachine
    from attribution.measure.jobfile import Options
    from attribution.measure.prepared import Prepared
    from attribution.measure.worker import Tell


Arm = tuple[str, str]
"""(question, arm)."""


def _arms(
    machine: CudaMachine,
    plan: Plan,
    refused: Collection[Arm],
    options: Options,
    tell: Tell,
    mode: str,
    base_turns: int = 1,
) -> Iterator[tuple[int, list[Prepared], dict[str, Any]]]:
    """(number, copies that ran once, facts) of every arm that is to be profiled and was not refused; bases `base_turns` times.

    The first copy is what is profiled, the others are there where the cache is to be cold: running them evicts it.
    Checks of its output are added to the facts behind each turn.
    """
    case, least = machine.case(plan.seed), getattr(machine.module, "moved_bytes", None)
    arms = [(q.base, a) for q in plan.questions for a in q.arms if options.profiles(a.name)]
    arms = [(question, arm) for question, arm in arms if (question, arm.name) not in refused]
    turns = [(0, *pair) for pair in arms]
    turns += [(turn, q, a) for turn in range(1, base_turns) for q, a in arms if a.name == q]
    for number, (turn, question, arm) in enumerate(turns):
        tell("progress", done=number, total=len(turns), label=f"{arm.name} under {mode}")
        copies = guarded(lambda arm=arm: machine.copies(arm, case.inputs))  # type: ignore[misc]
        for one in copies:
            guarded(one.run)
        copies[0].poison()
        facts: dict[str, Any] = {
            "question": question,
            "round": turn,
            "arm": arm.name,
            "build": machine.build(arm),
            "inputs": case.hash,
            "least_bytes": least(case.inputs, plan.shape, arm.flags) if least else 0,
        }
        yield number, copies, facts
        facts["checks"] = [[c.name, c.passed, c.detail] for c in case.check(arm, copies[0].operator.output)]


def _evict(others: Sequence[Prepared]) -> None:
    for one in others:
        one.run()


def under_ncu(
    machine: CudaMachine, plan: Plan, refused: Collection[Arm], options: Options, folder: Path, tell: Tell, first: int
) -> list[dict[str, Any]]:
    """Launches of every arm, numbered from `first`.

    Each step is inside two NVTX ranges: the outer is what ncu profiles, the inner names the step.
    """
    import nvtx
    import torch

    made = []
    for number, (prepared, *others), facts in _arms(machine, plan, refused, options, tell, "ncu", options.base_turns):
        facts["steps"] = []
        for place, step in enumerate(prepared.operator.steps):
            if not {"operator", step.stage} & set(options.profiled_stages or options.stages):
                prepared.run_step(place)
                continue
            _evict(others)
            name = ncu.range_name(first + number, place, step.stage)
            nvtx.push_range(ncu.RANGE)
            nvtx.push_range(name)
            prepared.run_step(place)
            torch.cuda.synchronize()
            nvtx.pop_range()
            nvtx.pop_range()
            entry, grid = (step.entry, list(step.grid)) if isinstance(step, Launch) else ("", [])
            facts["steps"].append({"range": name, "stage": step.stage, "kernel_name": entry, "grid": grid})
        made.append(facts)
    return made


def under_cupti(
    machine: CudaMachine, plan: Plan, refused: Collection[Arm], options: Options, folder: Path, tell: Tell, first: int
) -> list[dict[str, Any]]:
    """Samples of each arm under torch.profiler."""
    made = []
    for _, copies, facts in _arms(machine, plan, refused, options, tell, "cupti"):
        facts["rows"] = cupti_rows(copies, options.samples, folder / cupti.TRACE)
        made.append(facts)
    return made


def cupti_rows(copies: Sequence[Prepared], samples: int, file: Path) -> list[cupti.Row]:
    """Rows of an arm in scope cupti, by way of a trace at `file`.  Raises DataError, MeasureError."""
    from torch.profiler import ProfilerActivity, profile

    from attribution.ingest import kineto

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        chain = guarded(lambda: _replayed(*copies, samples=samples))
    profiler.export_chrome_trace(str(file))
    steps = [cupti.Step(s.stage, isinstance(s, Launch)) for s in copies[0].operator.steps]
    rows = cupti.rows(kineto.load(file), samples, steps, chain)
    file.unlink()
    return rows


def _replayed(prepared: Prepared, *others: Prepared, samples: int) -> int | None:
    """One eager execution, each step in a range, then replays of the operator's graph, each in one; its `chain_length`.

    torch replays it, by the runtime's call: of the driver's call that `Graph` makes, torch.profiler keeps no record.
    """
    import torch
    from torch.profiler import record_function

    for place in range(len(prepared.operator.steps)):
        with record_function(cupti.step_range(place)):
            prepared.run_step(place)
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        prepared.run()
    prepared.poison()  # the eager execution left the right answer behind
    graph.replay()  # the first one is slower
    for sample in range(samples):
        _evict(others)
        with record_function(cupti.replay_range(sample)):
            graph.replay()
    torch.cuda.synchronize()
    return chain_length(graph)


PROFILES = {"ncu": under_ncu, "cupti": under_cupti}
