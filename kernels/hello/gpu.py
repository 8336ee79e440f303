"""hello on a GPU: one launch.  What each function is for says attribution/launch.py."""

from __future__ import annotations

import numpy as np
import torch

from attribution.launch import TRACE, Launch, Operator
from attribution.measure import ceilings as pure

from . import kernel

METRICS = {"bytes": "l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum"}


def inputs(shape, distribution, seed):
    """x, float32 [rows, columns], of whole numbers: float32 adds them exactly in any order."""
    rng = torch.Generator("cuda").manual_seed(seed)
    size = (shape["rows"], shape["columns"])
    return {"x": torch.randint(-8, 9, size, generator=rng, device="cuda").float()}


def operator(inputs, shape, flags, knobs):
    out = torch.empty(shape["rows"], device="cuda")
    args = (inputs["x"], out, np.int32(shape["rows"]), np.int32(shape["columns"]), TRACE)
    return Operator((Launch("main", "hello", (knobs["ctas"], 1, 1), kernel.THREADS, 0, args),), {"out": out})


def ceilings():
    """What a kernel that only reads can be compared with."""
    return (pure.copy(),)


def moved_bytes(inputs, shape, flags):
    """The least that must come from memory."""
    return inputs["x"].nbytes


def reference(inputs, shape, flags):
    return inputs["x"].sum(1, dtype=torch.float64).cpu().numpy()


def check(inputs, output, reference, shape, flags):
    return kernel.check(inputs, output["out"].cpu(), reference, shape, flags)
