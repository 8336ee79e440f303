"""Inputs of topk: a score matrix and each row's bounds, and the order of float32 that all of it shares.

Out: scores f32 [Q, N], start and end int32 [Q].  Bounds are causal, end = N - Q + t + 1, but for `ragged`: empty rows, rows
around K, starts that no vector load likes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attribution.declare import Inputs, Shape

DISTRIBUTIONS = (
    "normal",
    "plus_100",
    "times_1e-8",
    "ties",
    "equal",
    "clustered",
    "ascending",
    "special",
    "ragged",
)
SPECIAL = np.array([-np.inf, np.inf, np.nan, -0.0, 0.0, 1e-45, -1e-45, 1e-39, 1.0], np.float32)
"""Values that orders get wrong; the fourth and fifth differ by their sign bit only."""
EDGES = (0, 1, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097)
"""Lengths of rows at which something else happens, of `ragged`."""


def ordered_keys(scores: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Float32 bits as unsigned integers in the order of the numbers: -0 below +0, every NaN above +inf."""
    bits = np.ascontiguousarray(scores).view(np.uint32)
    keys = np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31))
    return np.where(np.isnan(scores), np.uint32(0xFFFFFFFF), keys)


def causal(rows: int, columns: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return np.zeros(rows, np.int32), (columns - rows + 1 + np.arange(rows)).astype(np.int32)


def ragged(rows: int, columns: int, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """start and end: lengths of EDGES in turn, else any; starts anywhere."""
    length = np.where(np.arange(rows) % 2 == 0, rng.choice(EDGES, rows), rng.integers(0, columns + 1, rows))
    length = np.minimum(length, columns)
    start = (rng.random(rows) * (columns - length + 1)).astype(np.int64)
    return start.astype(np.int32), (start + length).astype(np.int32)


def make(shape: Shape, distribution: str, seed: int) -> Inputs:
    rows, columns = shape["q"], shape["n"]
    rng = np.random.default_rng([seed, DISTRIBUTIONS.index(distribution)])
    scores = _SCORES.get(distribution, _normal)(rng, rows, columns).astype(np.float32)
    start, end = ragged(rows, columns, rng) if distribution == "ragged" else causal(rows, columns)
    out = {"scores": scores, "start": start, "end": end}
    for array in out.values():
        array.setflags(write=False)
    return out


def _normal(rng: np.random.Generator, rows: int, columns: int) -> NDArray[Any]:
    return rng.standard_normal((rows, columns), dtype=np.float32)


def _clustered(rng: np.random.Generator, rows: int, columns: int) -> NDArray[Any]:
    """Runs of 512 columns around one level: high scores come together."""
    level = rng.standard_normal((rows, -(-columns // 512)), dtype=np.float32)
    return np.repeat(level, 512, axis=1)[:, :columns] + 0.25 * _normal(rng, rows, columns)


def _ascending(rng: np.random.Generator, rows: int, columns: int) -> NDArray[Any]:
    """The last columns are the best: the worst case of whatever learns its threshold on the way."""
    return np.sort(_normal(rng, rows, columns), axis=1)


_SCORES: dict[str, Callable[[np.random.Generator, int, int], NDArray[Any]]] = {
    "plus_100": lambda rng, rows, columns: _normal(rng, rows, columns) + np.float32(100.0),
    "times_1e-8": lambda rng, rows, columns: _normal(rng, rows, columns) * np.float32(1e-8),
    "ties": lambda rng, rows, columns: rng.integers(-32, 32, (rows, columns)),
    "equal": lambda rng, rows, columns: np.full((rows, columns), 1.5),
    "clustered": _clustered,
    "ascending": _ascending,
    "special": lambda rng, rows, columns: SPECIAL[rng.integers(0, len(SPECIAL), (rows, columns))],
}
