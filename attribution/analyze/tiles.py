"""Key tiles that index_topk reads: how many, how many (query, key) pairs they hold, and how many one CTA takes.

In: shape, rows of a query batch, keys of a tile, schedule.  Out: counts, exact for causal bounds.
A batch reads whole tiles up to its last row's bound, so tiles hold more pairs than the bounds let through.
Misuse: bounds that start above zero, or that are not causal, have other tiles.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

HOST_TILE_KEYS = 128
STEP_PAIRS = 256
"""Rows of a batch times keys of a tile on a GPU: one tile is one step of matrix instructions."""


def tile_keys(block_q: int, machine: str) -> int:
    """Keys of one tile on a machine of this kind (`cuda`, `host`)."""
    return STEP_PAIRS // block_q if machine == "cuda" else HOST_TILE_KEYS


def of_batches(q: int, n: int, block_q: int, keys: int) -> NDArray[np.int64]:
    """Tiles of each query batch [batches], for Q queries at the end of N keys."""
    ends = n - q + np.minimum(np.arange(block_q, q + block_q, block_q), q)
    tiles: NDArray[np.int64] = -(-ends // keys)
    return tiles


def pairs(q: int, n: int, block_q: int, keys: int) -> int:
    """(query, key) pairs that lie in the tiles, those outside the bounds too."""
    tiles = of_batches(q, n, block_q, keys)
    rows = np.full(len(tiles), block_q)
    rows[-1] = q - block_q * (len(tiles) - 1)
    return int((tiles * rows).sum()) * keys


def of_busiest_cta(q: int, n: int, flags: Mapping[str, object], ctas: int) -> int | None:
    """Tiles that the CTA with the most of them takes on a GPU; None where its share is not one of tiles alone.

    SCHEDULE = rows: whole batches c, c + ctas, ...; shares: all tiles in equal parts, unless a batch has so few of them that its
    selection counts for more (SELECT_TILES).
    """
    block_q = int(str(flags["BLOCK_Q"]))
    tiles = of_batches(q, n, block_q, tile_keys(block_q, "cuda"))
    if flags["SCHEDULE"] == "rows":
        return int(max(tiles[cta::ctas].sum() for cta in range(min(ctas, len(tiles)))))
    # SELECT_TILES counts tiles of four rows a batch; the same work is fewer, longer tiles of fewer rows.  As stages.cuh has it:
    # rungs that leave selection out share tiles out as the full kernel does, and only a scorer that selects nothing does not.
    selection = 0 if flags["STORE_SCORES"] else int(str(flags["SELECT_TILES"])) * block_q**2 // 16
    return -(-int(tiles.sum()) // ctas) if tiles.min() >= selection else None
