"""The second half of an unfused indexer: the places of the largest scores of every row.

In: float32 [rows, keys], and the call it belongs to.
Out: int32 [rows, top_k], in any order, -1 after the last where a row has fewer keys.
Misuse: a selector of READ_ALL relies on -inf outside a row's bounds; a scorer must have written it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from attribution.kernels import topk
from attribution.prefill.stack import IndexCall

Selector = Callable[[Any, IndexCall, int], Any]


def topk_kernel() -> Selector:
    """Our own standalone kernel `topk`."""
    return lambda scores, call, top_k: topk(scores, call.k_start, call.k_end, top_k)


def torch_topk(scores: Any, call: IndexCall, top_k: int) -> Any:
    """torch.topk, then -1 where a row has fewer than `top_k` keys."""
    import torch

    rows, keys = scores.shape
    values, places = torch.topk(scores, min(top_k, keys), dim=1, sorted=False)
    found = places.int()
    if call.start + 1 < top_k:
        found = found.masked_fill(values == -torch.inf, -1)
    if keys < top_k:
        found = torch.cat([found, found.new_full((rows, top_k - keys), -1)], 1)
    return found


SELECTORS: dict[str, Callable[[], Selector]] = {"topk_kernel": topk_kernel}
"""On a GPU, before `torch_topk`, which is always there."""
READ_ALL = ("torch_topk",)
"""Selectors that read whole rows of the matrix, whatever the bounds."""


@functools.cache
def selector(name: str) -> Selector:
    return torch_topk if name == "torch_topk" else SELECTORS[name]()
