"""The first half of an unfused indexer: all scores of a call as a matrix in memory.

In: an `IndexCall`, and whether the selector reads outside a row's bounds (`clean`).  Out: float32 [rows, keys], -inf there if so.
A scorer is made once by its factory, which raises what is missing; `SCORERS` lists them, what serving engines use first.
Misuse: `deep_gemm` is another project's wheel and builds with nvcc at its first call of a size: warm up before timing.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from attribution.kernels import index_scores
from attribution.prefill.stack import IndexCall

Scorer = Callable[[IndexCall, bool], Any]
"""(call, clean) -> scores."""

BLOCK_ELEMENTS = 1 << 26
"""Dot products that `torch_scores` holds at a time."""


def deep_gemm() -> Scorer:
    """DeepGEMM's `fp8_mqa_logits`.  Raises ImportError where it is not installed."""
    library = importlib.import_module("deep_gemm")

    def scores(call: IndexCall, clean: bool) -> Any:
        keys = (call.k, call.k_scale)
        return library.fp8_mqa_logits(call.q, keys, call.w, call.k_start, call.k_end, clean_logits=clean)

    return scores


def store_scores() -> Scorer:
    """Our own: kernel index_topk built with STORE_SCORES, which always cleans."""
    return lambda call, clean: index_scores(call.named())


def torch_scores(call: IndexCall, clean: bool = True) -> Any:
    """By matrix products of torch in float32, some rows at a time; on any device."""
    import torch

    rows, heads, dim = call.q.shape
    keys, place = call.k.float(), torch.arange(call.k.shape[0], device=call.k.device)
    out = torch.empty(rows, len(place), device=call.k.device)
    step = max(1, BLOCK_ELEMENTS // (heads * len(place)))
    for first in range(0, rows, step):
        some = slice(first, first + step)
        dots = (call.q[some].float().reshape(-1, dim) @ keys.T).relu_().view(-1, heads, len(place))
        scores = (call.w[some][:, None, :] @ dots)[:, 0] * call.k_scale
        outside = (place < call.k_start[some][:, None]) | (place >= call.k_end[some][:, None])
        out[some] = scores.masked_fill_(outside, -torch.inf)
    return out


SCORERS: dict[str, Callable[[], Scorer]] = {"deep_gemm": deep_gemm, "store_scores": store_scores}
"""On a GPU, in this order; `torch_scores` is what runs on a CPU and what checks are made with."""


@functools.cache
def scorer(name: str) -> Scorer:
    return torch_scores if name == "torch_scores" else SCORERS[name]()
