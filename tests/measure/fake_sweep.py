"""A sweep's worker whose machine is faked; what the environment's FAKE names happens at points of 8 rows only."""

from __future__ import annotations

import sys
from typing import Any

from fake_worker import Machine, under_ncu

from attribution.measure import worker


class SweepMachine(Machine):
    def __init__(self, kernel: Any, plan: Any, options: Any, tell: Any) -> None:
        super().__init__(kernel, plan, options, tell)
        if plan.shape["rows"] != 8:
            self.arm = ""


if __name__ == "__main__":
    sys.exit(worker.serve(sys.argv[1:], SweepMachine, {"ncu": under_ncu}))
