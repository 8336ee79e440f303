"""Scores of an indexer on the card: index_topk's own scorer writes them, in the variant that stores its scores.

In: FP8 queries and keys, weights, scales, bounds, as CUDA tensors.  Out: the matrix with its bounds.
Misuse: the scorer writes only inside the bounds of each row; what lies outside stays -inf.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .captured import DIM, HEADS


def on_card(array: Any) -> Any:
    """A numpy array as a CUDA tensor; FP8 travels as bytes."""
    import torch

    if array.dtype.itemsize == 1:
        return torch.from_numpy(array.view(np.uint8)).cuda().view(torch.float8_e4m3fn)
    return torch.from_numpy(array).cuda()


def random_operands(rows: int, columns: int, random: Any) -> dict[str, Any]:
    """Normal queries and keys, causal bounds: the last row sees every column."""
    import torch

    fp8, ends = torch.float8_e4m3fn, torch.arange(rows, device="cuda", dtype=torch.int32) + columns - rows + 1
    return {
        "q": torch.randn(rows, HEADS, DIM, device="cuda", generator=random).to(fp8),
        "k": torch.randn(columns, DIM, device="cuda", generator=random).to(fp8),
        "k_scale": torch.rand(columns, device="cuda", generator=random) + 0.5,
        "w": torch.randn(rows, HEADS, device="cuda", generator=random) / HEADS**0.5,
        "k_start": torch.zeros_like(ends),
        "k_end": ends.clamp(min=0),
    }


def scored(operands: dict[str, Any]) -> dict[str, Any]:
    """scores, start, end of these operands."""
    import torch

    from attribution.kernels import index_scores

    scores = index_scores(operands)
    torch.cuda.synchronize()
    return {"scores": scores, "start": operands["k_start"], "end": operands["k_end"]}
