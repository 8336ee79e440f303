"""Roofline: useful arithmetic over time, against the ceiling that was measured and the one on the data sheet.

In: shapes, times, instruction counts.  Out: FLOP, bytes, rates, intensities.
Effective TFLOPS count only (query, key) pairs inside the causal bounds: k_end(t) = N - Q + t + 1.
Misuse: matrix instructions also compute what lies outside the bounds (tile rounding): their FLOP are an upper bound of the
useful ones, and a utilization from them is another number.  Bytes here are what the algorithm must move, not a counter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from attribution.analyze import tiles
from attribution.errors import DataError

HEADS, DIM = 64, 128
TENSOR_PIPES = 4
"""Of an SM; Nsight's cycles of the tensor pipe are added up over them."""
KEY_BYTES = DIM + 4
"""One FP8 key and its float32 scale."""


@dataclass(frozen=True)
class Chip:
    """Data-sheet peaks: dense FP8 FLOP/s, DRAM bytes/s, and dense FP8 FLOP of an SM's tensor cores in a cycle (NaN: not known)."""

    name: str
    fp8_flop_per_s: float
    dram_byte_per_s: float
    flop_per_cycle_sm: float = math.nan


CHIPS = {
    chip.name: chip
    for chip in (Chip("NVIDIA H20-3e", 296e12, 4.8e12), Chip("NVIDIA H200", 1979e12, 4.8e12, flop_per_cycle_sm=8192))
}
"""By the name that the driver reports; from the vendor's data sheets: four tensor cores of 1024 FP8 multiply-adds a cycle."""


def causal_pairs(q: int, n: int) -> int:
    """(query, key) pairs inside the bounds of Q queries at the end of N keys.  Raises DataError for Q > N."""
    if not 0 < q <= n:
        raise DataError(f"q = {q}, n = {n}: causal rows need 0 < q <= n")
    return q * (n - q) + q * (q + 1) // 2


def useful_flop(q: int, n: int) -> int:
    """Multiply and add of every pair, head and dimension."""
    return causal_pairs(q, n) * 2 * HEADS * DIM


def mma_flop(instructions: float, n: int) -> float:
    """FLOP of FP8 matrix instructions counted per warp: the four of a warpgroup issue one 64 x n x 32 product together."""
    return instructions / 4 * 2 * 64 * n * 32


def tflops(flop: float, time_ns: float) -> float:
    """10^12 FLOP/s.  Raises DataError for a time that is not positive."""
    if not time_ns > 0:
        raise DataError(f"a rate over {time_ns:g} ns is not defined")
    return flop / time_ns / 1e3


def l2_bytes(q: int, n: int, block_q: int, tile_keys: int = tiles.HOST_TILE_KEYS) -> int:
    """Key bytes that all query batches read through L2: a batch reads whole tiles up to its last row's bound."""
    return int(tiles.of_batches(q, n, block_q, tile_keys).sum()) * tile_keys * KEY_BYTES


def dram_bytes(q: int, n: int, k: int) -> int:
    """Least traffic: every key, query and weight once in, every index once out."""
    return n * KEY_BYTES + q * (HEADS * DIM + HEADS * 4) + q * k * 4


def point(
    q: int,
    n: int,
    k: int,
    block_q: int,
    time_ns: float,
    practical_flop_per_s: float = math.nan,
    chip: Chip | None = None,
    tile_keys: int = tiles.HOST_TILE_KEYS,
) -> dict[str, float]:
    """One version at one shape: rates against both ceilings, intensities, and the floor of its time under each.

    Raises DataError for a rate above the data sheet (something was not computed) or a memory rate above the DRAM's.
    """
    flop = useful_flop(q, n)
    spec = chip.fp8_flop_per_s if chip else math.nan
    rate = tflops(flop, time_ns) * 1e12
    least = dram_bytes(q, n, k)
    if rate > spec:
        raise DataError(
            f"{rate / 1e12:.0f} TFLOPS at q = {q}, n = {n} is above {spec / 1e12:.0f} of the data sheet: not all was computed"
        )
    if chip and least / time_ns * 1e9 > chip.dram_byte_per_s:
        raise DataError(
            f"{least / time_ns:.0f} GB/s at q = {q}, n = {n} is above {chip.dram_byte_per_s / 1e9:.0f} of the data sheet: "
            "the inputs were not read from memory"
        )
    through_l2 = l2_bytes(q, n, block_q, tile_keys)
    return {
        "time_ns": time_ns, "useful_flop": float(flop), "tflops": rate / 1e12,
        "practical_share": rate / practical_flop_per_s, "spec_share": rate / spec,
        "floor_practical_ns": flop / practical_flop_per_s * 1e9, "floor_spec_ns": flop / spec * 1e9,
        "dram_intensity": flop / least, "l2_intensity": flop / through_l2,
        "l2_byte_per_s": through_l2 / time_ns * 1e9,
        "dram_ridge": spec / chip.dram_byte_per_s if chip else math.nan,
    }  # fmt: skip
