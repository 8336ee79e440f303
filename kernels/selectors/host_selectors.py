"""Selectors of the host machine: the ways of the GPU's selectors with numpy, one row at a time.

In: the scores of one row inside its bounds, how many to take.  Out: their places, in any order.
They are exact for every input; what depends on the distribution is how much is left for the last step.
Misuse: their times are of this CPU and of numpy's routines; they show which mechanism depends on what, not a GPU's speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Places = NDArray[np.intp]
Select = Callable[[Scores, int], Places]

SAMPLE = 512
"""Scores that a threshold is taken from."""
Z = 4.0
"""Deviations by which the expected candidates stay above the count."""
MOST_CANDIDATES = 4
"""Candidates, in counts, beyond which the threshold is given up and the whole row is partitioned."""


def partition(scores: Scores, count: int) -> Places:
    """Introselect: linear in the row on average."""
    if count in (0, len(scores)):
        return np.arange(count)
    return np.argpartition(scores, len(scores) - count)[len(scores) - count :]


def sort(scores: Scores, count: int) -> Places:
    """A full sort of the row."""
    return np.argsort(scores)[len(scores) - count :]


def threshold(scores: Scores, count: int) -> Places:
    """A threshold from a sample, the scores above it, and a partition of these; of the whole row where it missed."""
    step = max(1, len(scores) // SAMPLE)
    sample = scores[::step]
    share = count / max(1, len(scores))
    rank = int(len(sample) * share + Z * np.sqrt(len(sample) * share * (1 - share))) + 1
    if rank >= len(sample):
        return partition(scores, count)
    least = np.partition(sample, len(sample) - rank)[len(sample) - rank]
    found = np.flatnonzero(scores >= least)
    if not count <= len(found) <= MOST_CANDIDATES * count:
        return partition(scores, count)
    return found[partition(scores[found], count)]


def histogram(scores: Scores, count: int) -> Places:
    """Bins of the leading byte of half-precision keys, then of each byte of the float32 keys of the bin that is cut."""
    with np.errstate(over="ignore"):
        half = scores.astype(np.float16).view(np.uint16)
    taken: list[Places] = []
    left = _cut(_ordered(half, 16) >> 8, np.arange(len(scores)), count, taken)
    keys = _ordered(scores.view(np.uint32), 32)
    for shift in (24, 16, 8, 0):
        if left[0].size <= left[1]:
            break
        left = _cut((keys[left[0]] >> np.uint32(shift)) & np.uint32(255), left[0], left[1], taken)
    return np.concatenate([*taken, left[0][: left[1]]])


def _cut(digits: NDArray[Any], at: Places, count: int, taken: list[Places]) -> tuple[Places, int]:
    """Take the bins that are wholly among the largest; the places of the bin that is cut, and how many of them are wanted."""
    above = np.cumsum(np.bincount(digits, minlength=256)[::-1])
    cut = 255 - int(np.searchsorted(above, count))
    taken.append(at[digits > cut])
    return at[digits == cut], count - len(taken[-1])


def _ordered(bits: NDArray[Any], width: int) -> NDArray[Any]:
    """Bits of a float as an unsigned integer in the order of the numbers; -0 below +0."""
    top = bits.dtype.type(1 << (width - 1))
    return np.where(bits & top, ~bits, bits | top)


SELECTORS: Mapping[str, Select] = {
    "numpy_partition": partition,
    "numpy_sort": sort,
    "numpy_threshold": threshold,
    "numpy_histogram": histogram,
}
