"""Executed instructions of shipped kernels by the lines they come from: one report of Nsight Compute a kernel.

    python -m bench.regions_gpu FOLDER [NAME...]
In: a Hopper GPU, ncu and package nvtx.  Out: `NAME-h200.ncu-rep` in FOLDER, for `attr explain inst_executed --region ...`.
Each launch is profiled once, after one that nobody looks at.  Counts per instruction are taken by instrumented replays.
Misuse: nothing here is timed, and a share of executed instructions is no share of time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from attribution.build import build
from attribution.declare import FlagValue
from attribution.load import load_kernel, module_of, shipped_root
from attribution.measure import ncu

METRICS = ("inst_executed", "thread_inst_executed")


@dataclass(frozen=True)
class Asked:
    """One stage of a kernel at one point, with flags that differ from the declared ones."""

    kernel: str
    stage: str
    shape: Mapping[str, int]
    flags: Mapping[str, FlagValue] = field(default_factory=dict)


ASKED = {
    "index-topk": Asked("index_topk", "main", {"q": 4096, "n": 32768}),
    "topk": Asked("topk", "main", {"q": 1188, "n": 32768}),
    "topk-online": Asked("topk", "main", {"q": 1188, "n": 32768}, {"ALGORITHM": "online", "CANDIDATE_CAPACITY": 8192}),
}


def launch(asked: Asked) -> None:
    """The operator once, and once more with the launches of the stage in range `attr`."""
    import nvtx
    import torch

    from attribution.measure.prepared import Module, Prepared

    kernel = load_kernel(shipped_root(), asked.kernel)
    flags, module = kernel.resolve_flags(asked.flags), module_of(kernel, "gpu")
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    knobs = kernel.resolve_axes("knobs", {"sms": sms, "ctas": sms})
    operator = module.operator(module.inputs(asked.shape, "normal", 1), asked.shape, flags, knobs)
    prepared = Prepared(kernel, operator, Module(build(kernel, flags)), 0)
    prepared.run()
    for place, step in enumerate(operator.steps):
        inside = step.stage == asked.stage
        if inside:
            nvtx.push_range(ncu.RANGE)
        prepared.run_step(place)
        torch.cuda.synchronize()
        if inside:
            nvtx.pop_range()


def record(name: str, folder: Path) -> str:
    """Profile `name` in a process of its own; returns what became of it."""
    report = folder / f"{name}-h200.ncu-rep"
    worker = [sys.executable, "-m", "bench.regions_gpu", "--launch", name]
    done = subprocess.run(ncu.command(worker, report, METRICS), capture_output=True, text=True, check=False)
    return f"{report}" if report.is_file() else f"{ncu.explain(done.stdout + done.stderr)}\n{done.stderr[-2000:]}"


def main(arguments: list[str]) -> None:
    if arguments[0] == "--launch":
        launch(ASKED[arguments[1]])
        return
    if ncu.missing():
        raise SystemExit(f"regions_gpu: {ncu.missing()}")
    for name in arguments[1:] or list(ASKED):
        print(f"{name}: {record(name, Path(arguments[0]))}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
