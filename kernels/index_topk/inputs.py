"""Inputs of index_topk on the host: FP8 queries and keys, weights, scales, bounds.

FP8 itself cannot hold scores shifted by +100 or scaled by 1e-8: those are made through scales and weights.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from attribution.declare import Inputs, Shape

from .sizes import DIM, HEADS

WARP_KEYS = 16
"""Keys of a 128-key tile that one Math warp owns: M = 64 a warpgroup, four warps."""
TILE_KEYS = 128

DISTRIBUTIONS = ("normal", "plus_100", "times_1e-8", "ties", "clustered", "overflow", "amax")


def make(shape: Shape, distribution: str, seed: int) -> Inputs:
    """q fp8 [Q, 64, 128], k fp8 [N, 128], k_scale f32 [N], w f32 [Q, 64], k_start and k_end int32 [Q]."""
    queries, keys = shape["q"], shape["n"]
    rng = np.random.default_rng([seed, DISTRIBUTIONS.index(distribution)])
    values: dict[str, Any] = {
        "q": rng.standard_normal((queries, HEADS, DIM), dtype=np.float32),
        "k": rng.standard_normal((keys, DIM), dtype=np.float32),
        "k_scale": rng.uniform(0.5, 1.5, keys).astype(np.float32),
        "w": (rng.standard_normal((queries, HEADS)) / np.sqrt(HEADS)).astype(np.float32),
    }
    _DISTRIBUTE[distribution](values, rng)
    out: dict[str, Any] = {
        "q": values["q"].astype(ml_dtypes.float8_e4m3fn),
        "k": values["k"].astype(ml_dtypes.float8_e4m3fn),
        "k_scale": values["k_scale"],
        "w": values["w"],
        "k_start": np.zeros(queries, dtype=np.int32),
        "k_end": (keys - queries + 1 + np.arange(queries)).astype(np.int32),
    }
    for array in out.values():
        array.setflags(write=False)
    return out


def _normal(values: dict[str, Any], rng: np.random.Generator) -> None:
    """As drawn."""


def _plus_100(values: dict[str, Any], rng: np.random.Generator) -> None:
    """The last head sees only dimension 0, which is 16 x 16 for every pair, and weighs it to exactly 100."""
    values["q"][:, :, 0] = 0.0
    values["q"][:, -1, :] = 0.0
    values["q"][:, -1, 0] = 16.0
    values["k"][:, 0] = 16.0
    values["k_scale"][:] = 1.0
    values["w"][:, -1] = 100.0 / 256.0


def _tiny(values: dict[str, Any], rng: np.random.Generator) -> None:
    values["w"] *= np.float32(1e-4)
    values["k_scale"] *= np.float32(1e-4)


def _ties(values: dict[str, Any], rng: np.random.Generator) -> None:
    """64 distinct keys, each many times: a row has at most 64 distinct scores."""
    values["k"] = values["k"][rng.integers(0, min(64, len(values["k"])), len(values["k"]))]
    values["k_scale"][:] = 1.0


def _clustered(values: dict[str, Any], rng: np.random.Generator) -> None:
    """Runs of 512 keys around one centre: high scores come together."""
    keys = values["k"]
    centres = rng.standard_normal((len(keys) // 512 + 1, DIM), dtype=np.float32)
    values["k"] = centres[np.arange(len(keys)) // 512] + np.float32(0.25) * keys


def _overflow(values: dict[str, Any], rng: np.random.Generator) -> None:
    """Keys of the first Math warp score far higher, so that its segment must overflow."""
    values["w"] = np.abs(values["w"])
    hot = np.arange(len(values["k"])) % TILE_KEYS < WARP_KEYS
    values["k_scale"][:] = np.where(hot, np.float32(8.0), np.float32(1.0))


def _amax(values: dict[str, Any], rng: np.random.Generator) -> None:
    """As indexers quantize: the largest of each vector is 448, the largest e4m3; k_scale and w undo it."""
    for name, undo in (("q", "w"), ("k", "k_scale")):
        factor = np.abs(values[name]).max(axis=-1) / np.float32(448.0)
        values[name] /= factor[..., None]
        values[undo] *= factor


_DISTRIBUTE = {
    "normal": _normal,
    "plus_100": _plus_100,
    "times_1e-8": _tiny,
    "ties": _ties,
    "clustered": _clustered,
    "overflow": _overflow,
    "amax": _amax,
}
