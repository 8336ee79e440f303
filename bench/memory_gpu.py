"""Do equal builds differ by where their memory lies?  Instances of index_topk's default build against each other, paired.

    python -m bench.memory_gpu FILE.json [ROUNDS]
In: a Hopper GPU.  Out: milliseconds of graph replays by round for three kinds of instances, and how far those of a kind lie apart:
`own` have memory of their own, `graphs` are graphs captured over one memory, `shared` are given one memory by measure/memory.py.
Each round all replay in a fresh random order, with a rest behind each turn; other instances of their graphs every eighth round.
Misuse: inputs are the same tensors throughout; what their place does to the time is not asked here.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from attribution.build import build
from attribution.load import load_kernel, module_of, shipped_root
from attribution.measure.graph import Graph
from attribution.measure.memory import SharedMemory
from attribution.measure.prepared import Module, Prepared
from attribution.measure.probe import Gpu, find

SHAPES = {"4096x8192": 160, "4096x131072": 24}
"""Queries x keys, and rounds."""
KINDS = {"own": 8, "graphs": 4, "shared": 4}
STAGES = ("operator", "main")
WARM_UPS, SAMPLES, REST = 2, 4, 2.0
RENEWED_EVERY = 8
Times = dict[str, list[float]]


def apart(times: Mapping[str, list[float]], kind: str) -> float:
    """The slowest over the fastest instance of a kind, less 1: each instance's mean ratio to the mean of its round."""
    mine = [values for name, values in times.items() if name.startswith(kind)]
    means = [statistics.fmean(one) for one in zip(*mine, strict=True)]
    ratios = [statistics.fmean(v / m for v, m in zip(values, means, strict=True)) for values in mine]
    return max(ratios) / min(ratios) - 1


def rows(milliseconds: Mapping[str, Mapping[str, Times]]) -> list[dict[str, str]]:
    """What is told of all shapes, stages and kinds."""
    return [
        {"what": f"{shape} {stage}: {kind}", "measured": f"{apart(times, kind):.2%}"}
        for shape, stages in milliseconds.items()
        for stage, times in stages.items()
        for kind in KINDS
    ]


def instances(shape: Mapping[str, int], sms: int) -> tuple[list[Prepared], dict[str, dict[str, Graph]]]:
    """What must stay alive, and every instance's graphs by stage."""
    kernel = load_kernel(shipped_root(), "index_topk")
    gpu, flags = module_of(kernel, "gpu"), kernel.resolve_flags({})
    knobs = kernel.resolve_axes("knobs", {"sms": sms, "ctas": sms})
    module, memory = Module(build(kernel, flags)), SharedMemory()
    inputs = gpu.inputs(shape, "normal", 1)
    kept: list[Prepared] = []

    def made(shared: bool) -> Prepared:
        with memory.arm() if shared else nullcontext():
            kept.append(Prepared(kernel, gpu.operator(inputs, shape, flags, knobs), module))
        return kept[-1]

    first = made(False)
    of = {
        "own": lambda i: first if i == 0 else made(False),
        "graphs": lambda i: first,
        "shared": lambda i: made(True),
    }
    return kept, {f"{kind} {i}": _graphs(of[kind](i)) for kind, count in KINDS.items() for i in range(count)}


def _graphs(prepared: Prepared) -> dict[str, Graph]:
    import torch

    prepared.run()
    torch.cuda.synchronize()
    return {stage: Graph(lambda stage=stage: prepared.run(stage)) for stage in STAGES}  # type: ignore[misc]


def turn(graph: Graph) -> float:
    """Median milliseconds of SAMPLES replays, and a rest."""
    import torch

    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(SAMPLES)]
    for _ in range(WARM_UPS):
        graph.replay()
    for begin, end in events:
        begin.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    spent = [begin.elapsed_time(end) for begin, end in events]
    time.sleep(sum(spent) * REST * 1e-3)
    return statistics.median(spent)


def measured(shape: Mapping[str, int], rounds: int, sms: int) -> dict[str, Times]:
    """Stage -> instance -> milliseconds by round."""
    _kept, graphs = instances(shape, sms)
    out: dict[str, Times] = {stage: {name: [] for name in graphs} for stage in STAGES}
    order, shuffle = list(graphs), random.Random(0)
    time.sleep(0.5)
    for number in range(rounds):
        for one in (g for stages in graphs.values() for g in stages.values() if number % RENEWED_EVERY == 0):
            one.renew()
        for stage in STAGES:
            shuffle.shuffle(order)
            for name in order:
                out[stage][name].append(round(turn(graphs[name][stage]), 6))
    return out


def main(arguments: list[str]) -> None:
    gpu = find()
    if not isinstance(gpu, Gpu):
        raise SystemExit(f"memory_gpu: {gpu}")
    made: dict[str, Any] = {"card": gpu.name, "scope": "graph", "date": time.strftime("%Y-%m-%d"), "milliseconds": {}}
    for name, rounds in SHAPES.items():
        q, n = map(int, name.split("x"))
        made["milliseconds"][name] = measured({"q": q, "n": n}, int(arguments[1]) if arguments[1:] else rounds, gpu.sms)
    made["rows"] = rows(made["milliseconds"])
    Path(arguments[0]).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    for row in made["rows"]:
        print(f"{row['what']}: {row['measured']} between the slowest and the fastest", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
