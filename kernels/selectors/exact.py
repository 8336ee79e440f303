"""Whether a selection is exact: the same check for numpy arrays and for tensors on a GPU.

In: `NUMPY` or `torch_arrays()`, inputs, indices [rows, k], the reference's values [rows, min(k, columns)], largest first.
Out: checks of every row; each row has to be right.
Equal scores may be chosen in any way, so values are compared, never places.
Misuse: -0 and +0 are equal here, as they are to every selector that compares numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attribution.declare import Check, Inputs


@dataclass(frozen=True)
class Arrays:
    """What numpy and torch spell differently: each works on rows of a matrix."""

    sort: Callable[[Any], Any]
    take: Callable[[Any, Any], Any]
    where: Callable[[Any, Any, Any], Any]
    integers: Callable[[Any], Any]


NUMPY = Arrays(
    sort=lambda a: np.sort(a, axis=1),
    take=lambda a, at: np.take_along_axis(a, at, axis=1),
    where=np.where,
    integers=lambda a: a.astype(np.int64),
)


def torch_arrays() -> Arrays:
    """The same for tensors."""
    import torch

    return Arrays(
        sort=lambda a: torch.sort(a, 1).values,
        take=lambda a, at: torch.take_along_dim(a, at, 1),
        where=torch.where,
        integers=lambda a: a.long(),
    )


def judge(arrays: Arrays, inputs: Inputs, indices: Any, reference: Any, k: int) -> list[Check]:
    """Count, bounds, uniqueness, and the values of the true top k, of every row."""
    scores, start, end = inputs["scores"], inputs["start"][:, None], inputs["end"][:, None]
    at = arrays.integers(indices)
    filled = at != -1
    count = filled.sum(1) == (end - start)[:, 0].clip(0, k)
    inside = (((at >= start) & (at < end)) | ~filled).all(1)
    order = arrays.sort(at)
    unique = ~((order[:, 1:] == order[:, :-1]) & (order[:, 1:] != -1)).any(1)
    got = arrays.take(scores, at.clip(0, scores.shape[1] - 1))
    got = -arrays.sort(-arrays.where(filled, got, -np.inf))
    same = (got[:, : reference.shape[1]] == reference).all(1)
    return [
        Check.of_rows("selected_count", count),
        Check.of_rows("inside_bounds", inside),
        Check.of_rows("unique", unique),
        Check.of_rows("values", same),
    ]
