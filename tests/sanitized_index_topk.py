"""A child for compute-sanitizer: `python sanitized_index_topk.py ROOT` runs ROOT's index_topk on small inputs, and nothing else.

Inputs are copied from the host, so that initcheck knows them as written.  Candidates are cleared: they are read in pairs, and
the entry behind an odd number of them, which is not used, would be reported.  z = 0: about half of the rows are repaired.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

FLAGS: list[dict[str, Any]] = [
    {}, {"TRACE": 1}, {"REDUCE_MATH": "f32", "LAYOUT": "shared", "SEGMENT_CAPACITY": 2048, "BLOCK_Q": 2},
]  # fmt: skip
CTAS = (1, 7)


def main(root: Path) -> None:
    import numpy as np
    import torch

    from attribution.build import build
    from attribution.load import load_kernel, module_of
    from attribution.measure.prepared import Module, Prepared

    kernel = load_kernel(root, "index_topk")
    inputs = module_of(kernel, "gpu").inputs({"q": 7, "n": 2304}, "normal", 1)
    bounds = np.array([[0, 2304], [0, 700], [5, 2302], [9, 9], [100, 2300], [0, 2049], [0, 2304]], np.int32)
    inputs["k_start"], inputs["k_end"] = (torch.from_numpy(b.copy()).cuda() for b in bounds.T)
    for overrides in FLAGS:
        flags = kernel.resolve_flags(overrides)
        module = Module(build(kernel, flags))
        for ctas in CTAS:
            made = module_of(kernel, "operator").make(inputs, flags, {"ctas": ctas}, z=0.0)
            made.scratch.candidates.zero_()
            Prepared(kernel, made.steps(), module, int(flags["TRACE"])).run()
            torch.cuda.synchronize()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
