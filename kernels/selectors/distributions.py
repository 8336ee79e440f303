"""Score matrices to select from: random ones of several shapes, and scores of index_topk's own scorer.

In: shape, the name of a distribution, a seed.  Out: scores f32 [rows, columns], start and end int32 [rows].
One definition serves numpy and torch: each distribution is a function of normal draws.
Misuse: none of the random ones looks like a model's scores, which is why they stand beside captured matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attribution.declare import Shape
from attribution.load import load_kernel, shipped_root

RUN = 512
"""Columns of one cluster."""
STEPS = 8
"""Distinct values from one standard deviation to the next where there are ties."""
CUT = 0.6745
"""Upper quartile of a normal variable."""
Draw = Callable[[int, int], Any]
"""Draw(rows, columns): standard normal, float32."""


def _normal(draw: Draw, rows: int, columns: int) -> Any:
    return draw(rows, columns)


def _plus_100(draw: Draw, rows: int, columns: int) -> Any:
    """One exponent and few leading bits: a first pass over half precision cannot tell the scores apart."""
    return draw(rows, columns) + 100


def _tiny(draw: Draw, rows: int, columns: int) -> Any:
    """Below what half precision can hold."""
    return draw(rows, columns) * 1e-8


def _ties(draw: Draw, rows: int, columns: int) -> Any:
    """Many equal values, at the k-th place too."""
    return (draw(rows, columns) * STEPS).round() / STEPS


def _clustered(draw: Draw, rows: int, columns: int) -> Any:
    """Runs of columns around one centre each: high scores come together."""
    centres = draw(rows, columns // RUN + 1)
    return draw(rows, columns) * 0.25 + centres[:, [column // RUN for column in range(columns)]]


def _relu(draw: Draw, rows: int, columns: int) -> Any:
    """Three of four are exactly zero, as where every head's ReLU cut a key off."""
    return (draw(rows, columns) - CUT).clip(0)


def _leaky_relu(draw: Draw, rows: int, columns: int) -> Any:
    """The same order without the ties: what ReLU would make zero is small and negative."""
    shifted = draw(rows, columns) - CUT
    return shifted.clip(0) + shifted.clip(None, 0) * 1e-3


RANDOM: Mapping[str, Callable[[Draw, int, int], Any]] = {
    "normal": _normal,
    "normal_plus_100": _plus_100,
    "normal_times_1e-8": _tiny,
    "ties": _ties,
    "clustered": _clustered,
    "relu": _relu,
    "leaky_relu": _leaky_relu,
}
INDEXER = "indexer"
"""Scores that index_topk's scorer makes of random FP8 queries and keys, with causal bounds."""
NAMES = (*RANDOM, INDEXER)


def host_inputs(shape: Shape, distribution: str, seed: int) -> dict[str, Any]:
    """numpy arrays; of `indexer` the scores are the reference's, so few rows are wise."""
    rows, columns = shape["rows"], shape["columns"]
    if distribution == INDEXER:
        kernel = load_kernel(shipped_root(), "index_topk")
        sizes = kernel.resolve_axes("shape", {"q": rows, "n": columns})
        made = kernel.inputs(sizes, "normal", seed)
        return {
            "scores": kernel.reference(made, sizes).scores,
            "start": made["k_start"].copy(),
            "end": made["k_end"].copy(),
        }
    rng = np.random.default_rng([seed, NAMES.index(distribution)])
    scores = RANDOM[distribution](lambda r, c: rng.standard_normal((r, c), np.float32), rows, columns)
    ends = np.full(rows, columns, np.int32)
    return {"scores": np.ascontiguousarray(scores, np.float32), "start": np.zeros_like(ends), "end": ends}
