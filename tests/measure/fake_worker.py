"""A worker whose machine is faked, to be ended in every way that a GPU worker can be: run as a child process.

The environment variable FAKE names what happens: ARM:WHAT, WHAT one of die, hang, lost, raise, wrong, exit (from the arm's
second run on, and at once in every later worker), flaky (as die, but never at once: it takes many runs) and spoil (the arm
runs well, and whatever runs next loses the context).  ARM `ceilings` is the machine's ceilings: lost, die or hang.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd

from attribution.declare import Check
from attribution.errors import MeasureError
from attribution.launch import Ceiling
from attribution.measure import ceilings, worker
from attribution.measure.machine import MachineLost, Measured

METRICS = {"opcodes": "sass__inst_executed_per_opcode", "dram_read_bytes": "dram__bytes_read.sum"}


class Case:
    def __init__(self, seed: int) -> None:
        self.seed, self.hash = seed, f"{seed:016x}"

    def check(self, arm: Any, output: Any) -> list[Check]:
        return [Check("output", output == "right", f"it is {output}")]


class Machine:
    primary = ("graph", "operator")
    together = True

    def __init__(self, kernel: Any, plan: Any, options: Any, tell: Any) -> None:
        self.traced_rounds = options.traced_rounds
        self.count = 0
        arm, what = (os.environ.get("FAKE", ":") + ":").split(":")[:2]
        self.arm, self.what, self.spoiled = arm, what, False
        self.seen = Path(sys.argv[2]).with_suffix(".partial") / "seen"
        if what == "refuse":
            raise MeasureError("this GPU is too old")
        if what == "early":
            os.kill(os.getpid(), signal.SIGSEGV)

    def facts(self) -> dict[str, Any]:
        return {"kind": "cuda", "name": "NVIDIA F200", "expects": "f200", "sms": 4, "tick_ns": 32.0, "metrics": METRICS}

    def case(self, seed: int) -> Case:
        return Case(seed)

    def build(self, arm: Any) -> str:
        return f"build of {arm.flags}"

    def builds(self) -> dict[str, str]:
        return {"build": "code"}

    def lost_work(self, base: Any, arm: Any, same: Any) -> str:
        return f"its work is lost: {list(same)}" if self.what == "lost_work" and arm.name == self.arm else ""

    def output(self, arm: Any, case: Any) -> str:
        if self.spoiled:
            raise MachineLost("CUDA error: an illegal memory access was encountered")
        return "right"

    def static(self, arm: Any) -> list[dict[str, Any]]:
        made = ceilings.row(Ceiling("registers", "register", 1.0, lambda: None), "", 40.0, "ptxas")
        return [{**made, "stage": "main", "scope": "launch"}]

    def ceilings(self) -> list[dict[str, Any]]:
        if self.arm == "ceilings" and self.what == "lost":
            raise MachineLost("CUDA error: an illegal memory access was encountered")
        if self.arm == "ceilings" and self.what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.arm == "ceilings" and self.what == "hang":
            time.sleep(600)
        ceiling = Ceiling("practical_flop_per_s", "flop/s", 1.0, lambda: None)
        return [ceilings.row(ceiling, "0", 1.5e15, "events")]

    def measure(self, arms: Any, case: Any, began: Any) -> list[Measured]:
        out = []
        for i, arm in enumerate(arms):
            began(i)
            out.append(self.one(arm))
        return out

    def one(self, arm: Any) -> Measured:
        self.count += 1
        output = self.output(arm, Case(0))
        self.spoiled = (arm.name, self.what) == (self.arm, "spoil")
        if arm.name == self.arm and (self.count > 4 or (self.seen.exists() and self.what != "flaky")):
            self.seen.touch()
            if self.what in ("die", "flaky"):
                print("NVRM: Xid 13", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            if self.what == "exit":
                os._exit(9)
            if self.what == "hang":
                time.sleep(600)
            if self.what == "lost":
                raise MachineLost("CUDA error: an illegal memory access was encountered")
            if self.what == "raise":
                raise MeasureError("no such entry")
            output = "wrong"
        slow = 1.05 if arm.name == "scalar" else 1.0
        times = pd.DataFrame(
            {
                "scope": "graph",
                "stage": ["operator", "main"],
                "cache": "warm",
                "clock": "as-found",
                "sample": 0,
                "time_ns": [1e6 * slow + self.count, 9e5 * slow + self.count],
                "clock_mhz": 1980.0,
                "flags": "",
            }
        )
        return Measured(output, {"times": times})


def under_ncu(
    machine: Any, plan: Any, refused: Any, options: Any, folder: Path, tell: Any, first: int
) -> list[dict[str, Any]]:
    """Says that it launched what `traces/hello-h200.ncu-rep` holds: two launches, at one point or at one each."""
    points = int(os.environ.get("POINTS", "1"))
    arms = []
    for name in ("vector", "scalar")[first : first + 2 // points]:
        step = {"range": name, "stage": "main", "kernel_name": "hello", "grid": [264, 1, 1]}
        facts = {"question": "vector", "arm": name, "build": "b", "inputs": "i", "least_bytes": 2**30}
        arms.append({**facts, "steps": [step], "checks": [["sums", True, "0 rows differ"]]})
    return arms


def under_cupti(
    machine: Any, plan: Any, refused: Any, options: Any, folder: Path, tell: Any, first: int
) -> list[dict[str, Any]]:
    """One sample of each arm."""
    arms = []
    for name, time_ns in (("vector", 900.0), ("scalar", 950.0)):
        rows = [["cupti", stage, 0, time_ns, float("nan"), "", 32.0, 0] for stage in ("main", "operator")]
        facts = {"question": "vector", "arm": name, "build": "b", "inputs": "i"}
        arms.append({**facts, "rows": rows, "checks": [["sums", name == "vector", "1 row differs"]]})
    return arms


if __name__ == "__main__":
    sys.exit(worker.serve(sys.argv[1:], Machine, {"ncu": under_ncu, "cupti": under_cupti}))
