"""A sweep's worker whose machine is faked; what the environment's FAKE names happens at points of 8 rows only."""

from __future__ import annotations

import sys
from typing import Any

from fake_worker import Machine

from attribution.measure import sweep


class SweepMachine(Machine):
    def __init__(self, kernel: Any, plan: Any, options: Any, tell: Any) -> None:
        super().__init__(kernel, plan, options, tell)
        if plan.shape["rows"] != 8:
            self.arm = ""


def launches(machine: Any, plan: Any, refused: Any, options: Any, tell: Any, first: int) -> list[dict[str, Any]]:
    """One launch a point: the first point's and the second's of `traces/hello-h200.ncu-rep`."""
    name = ("vector", "scalar")[first]
    step = {"range": name, "stage": "main", "kernel_name": "hello", "grid": [264, 1, 1]}
    checks = [["sums", True, "0 rows differ"]]
    return [{"question": "vector", "arm": name, "build": "b", "inputs": "i", "steps": [step], "checks": checks}]


if __name__ == "__main__":
    sys.exit(sweep.serve(sys.argv[1:], SweepMachine, launches))
