"""Ten million rows a piece at a time: pieces whose arrays stay in a core's cache, on all cores.

In: where lanes begin; a function of a slice.  Out: its values, in order.
numpy lets go of the interpreter while it works on a piece, so threads are enough (pandas reads with all cores as well).
Misuse: a piece of fewer rows than CHUNK costs more to hand out than to work on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 17
"""Rows of a piece (2^17: 0.3 s where all at once took 0.6 s)."""
MOST_THREADS = 8
T = TypeVar("T")
Piece = TypeVar("Piece")


def each(pieces: Iterable[Piece], function: Callable[[Piece], T]) -> list[T]:
    """`function` of every piece, in order; one piece alone needs no thread."""
    todo = list(pieces)
    threads = min(len(todo), os.cpu_count() or 1, MOST_THREADS)
    if threads < 2:
        return [function(piece) for piece in todo]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, todo))


def lane_chunks(starts: NDArray[np.int64], count: int) -> Iterator[slice]:
    """Pieces of whole lanes of `count` rows; `starts`: where lanes begin, the first at 0."""
    near = np.searchsorted(starts, np.arange(CHUNK, count, CHUNK))
    cuts = np.unique(np.r_[0, starts[near[near < len(starts)]], count])
    for first, last in pairwise(cuts.tolist()):
        yield slice(first, last)
