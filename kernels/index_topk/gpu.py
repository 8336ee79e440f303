"""What the GPU worker needs of index_topk: inputs on the card, the steps of an operator, a reference and the checks.

In: shape, distribution, seed, flags, knobs.  Out: see attribution/launch.py.
The reference is torch's: FP8 values are exact in float32, sums over 128 dimensions and 64 heads are float32's.  The kernel's
own scores differ from it by at most TOLERANCE of a row's largest, so a selection is right when no selected key lies below the
K-th best by more than twice that.  Bitwise exactness against STORE_SCORES is what tests/gpu asks.
"""

from __future__ import annotations

from typing import Any

from attribution.declare import Check, Flags, Inputs, Knobs, Shape
from attribution.launch import Ceiling, Operator
from attribution.measure import ceilings as pure

from . import operator as op
from .baselines import unfused
from .inputs import make

ARCH = "sm_90a"
METRICS = {
    "tensor_instructions": "sass__inst_executed_per_opcode[QGMMA]",
    "tma_loads": "sass__inst_executed_per_opcode[UTMALDG]",
    "candidates": "sass__thread_inst_executed_true_per_opcode_with_modifier_all[STG.E.64]",
    "scanned": "sass__thread_inst_executed_true_per_opcode_with_modifier_all[LDG.E.128.STRONG.GPU]",
}
"""Equal work by dynamic opcode counts: QGMMA is the warpgroup's FP8 matrix instruction, UTMALDG the tensor copy.

In main a store of eight bytes is one candidate, and TopK's loads of sixteen bytes are two entries each; these are counted by
thread, where their predicate holds.
"""
TOLERANCE = {"f32": 1e-3, "packed": 2e-3, "f16": 3e-3}
"""Of a row's largest score; measured on an H200 on normal inputs: 2e-4, 8e-4, 12e-4."""
ROWS_CHECKED = 64
"""A reference of all rows of Q 4096 x N 131072 would take as long as everything else together."""


def inputs(shape: Shape, distribution: str, seed: int) -> dict[str, Any]:
    """The host's inputs as CUDA tensors; FP8 travels as bytes."""
    import numpy as np
    import torch

    out = {}
    for name, array in make(shape, distribution, seed).items():
        raw = np.array(array)
        if raw.dtype.itemsize == 1:
            out[name] = torch.from_numpy(raw.view(np.uint8)).cuda().view(torch.float8_e4m3fn)
        else:
            out[name] = torch.from_numpy(raw).cuda()
    return out


def operator(inputs: Inputs, shape: Shape, flags: Flags, knobs: Knobs) -> Operator:
    """The fused operator, or with STORE_SCORES a scorer followed by a selector.  Raises InputError without DeepGEMM's wheel."""
    made = op.make(inputs, flags, knobs)
    return unfused(made, inputs, flags) if flags["STORE_SCORES"] else made.steps()


def ceilings() -> tuple[Ceiling, ...]:
    """FP8 matrix work and nothing else; reading and writing memory and nothing else."""
    return pure.matrix_product_fp8(), pure.copy()


def rows_checked(rows: int) -> list[int]:
    """Rows spread over the batch, first and last among them."""
    count = min(rows, ROWS_CHECKED)
    return sorted({round(i * (rows - 1) / max(1, count - 1)) for i in range(count)})


def reference(inputs: Inputs, shape: Shape, flags: Flags) -> dict[str, Any]:
    """Scores of `rows_checked` by torch, float32 [rows, N], -inf outside the bounds."""
    import torch

    rows = torch.tensor(rows_checked(shape["q"]), device="cuda")
    keys = inputs["k"].float()
    place = torch.arange(shape["n"], device="cuda")
    scores = torch.empty((len(rows), shape["n"]), device="cuda")
    for i, row in enumerate(rows.tolist()):
        dots = (inputs["q"][row].float() @ keys.T).relu()
        scores[i] = (inputs["w"][row].double() @ dots.double()).float() * inputs["k_scale"]
    outside = (place < inputs["k_start"][rows][:, None]) | (place >= inputs["k_end"][rows][:, None])
    return {"rows": rows, "scores": scores.masked_fill_(outside, -torch.inf)}


def check(inputs: Inputs, output: Any, reference: Any, shape: Shape, flags: Flags) -> list[Check]:
    """Count, bounds and uniqueness of every row; scores of the rows that have a reference.  A rung without indices: `_rung`."""
    if "indices" not in output or not (flags["EMIT"] or flags["STORE_SCORES"]):
        return [_rung(output, flags)]
    import torch

    k_top, indices = int(flags["K"]), output["indices"].long()
    begin, end = inputs["k_start"].long()[:, None], inputs["k_end"].long()[:, None]
    filled = indices >= 0
    count = filled.sum(1) == (end - begin)[:, 0].clamp(max=k_top)
    inside = (((indices >= begin) & (indices < end)) | (indices == -1)).all(1)
    order = indices.sort(1).values
    unique = ~((order[:, 1:] == order[:, :-1]) & (order[:, 1:] >= 0)).any(1)
    rows, scores = reference["rows"], reference["scores"]
    mine = torch.where(filled[rows], scores.gather(1, indices[rows].clamp(min=0)), torch.inf)
    kth = scores.topk(min(k_top, scores.shape[1]), 1).values[:, -1:]
    room = 2 * TOLERANCE[str(flags["REDUCE_MATH"])] * scores.masked_fill(scores == -torch.inf, 0).abs().amax(1, True)
    best = ((mine >= kth - room) | (kth == -torch.inf)).all(1)
    return [
        Check.of_rows("selected_count", count),
        Check.of_rows("inside_bounds", inside),
        Check.of_rows("unique", unique),
        Check.of_rows("among_the_best", best),
    ]


def _rung(output: Any, flags: Flags) -> Check:
    """Whether a rung's work came to something; that it was as much work as its base's is judged by counters.

    Both are set to zero before main: a checksum of 0 was not written to, and a row's status is why it failed.
    """
    if flags["FILTER"] and not flags["SELECT"]:  # candidates stay in memory, nothing is folded
        failed = int((output["status"] != 0).sum().item())
        return Check("status", failed == 0, f"{failed} rows are marked as failed on a rung that selects nothing")
    folded = int(output["checksum"].item())
    return Check("checksum", folded != 0, f"{folded}: what the rung computed, folded; 0 is nothing")
