"""Selectors of the host machine: numpy's, as references without a GPU.

In: the scores of one row inside its bounds, how many to take.  Out: their places, in any order.
Misuse: their times are of this CPU, one row at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Select = Callable[[NDArray[np.float32], int], NDArray[np.intp]]


def partition(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Introselect: linear in the row on average."""
    if count == len(scores):
        return np.arange(count)
    return np.argpartition(scores, len(scores) - count)[len(scores) - count :]


def sort(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """A full sort of the row."""
    return np.argsort(scores)[len(scores) - count :]


SELECTORS: Mapping[str, Select] = {"numpy_partition": partition, "numpy_sort": sort}
