"""Whether a measurement that is called cold was cold, and whether a time is possible at all.

In: bytes of one copy of the buffers, how many copies there are and were used, the L2's size.
Out: the number of copies that a cold protocol needs; MeasureError where one touched too little; what the counters say of it.
Copies that exist but were never visited evict nothing: 13 copies of 4 MB visited 5 times touch
20 MB, which a 50 MB cache holds whole.
Misuse: count the bytes that a launch reads and writes, not the bytes that were allocated.
"""

from __future__ import annotations

import math

from attribution.errors import MeasureError

MARGIN = 1.5
"""Bytes between two uses of a copy, in L2 sizes: replacement is not exactly oldest first."""

LINE_BYTES = 128
MISSED = 0.9
"""Share of what must come from memory that has to be counted there: a few lines may be left from before."""


def copies_for(copy_bytes: int, l2_bytes: int) -> int:
    """Copies to rotate over, so that the others evict each before it is used again."""
    if copy_bytes < 1 or l2_bytes < 1:
        raise MeasureError(f"a cold protocol needs sizes: one copy has {copy_bytes} bytes, the L2 {l2_bytes}")
    return 1 + math.ceil(MARGIN * l2_bytes / copy_bytes)


def check_cold(copy_bytes: int, copies: int, visits: int, l2_bytes: int) -> int:
    """Bytes touched between two uses of one copy; raises MeasureError when the L2 can hold them.

    `visits`: how many launches in a row were made, each on the next copy.
    """
    used = min(copies, visits)
    touched = copy_bytes * max(used - 1, 0) if visits > copies else copy_bytes * used
    if touched <= l2_bytes:
        raise MeasureError(
            f"this is not cold: {used} of {copies} copies of {copy_bytes / 1e6:g} MB were visited, "
            f"{touched / 1e6:g} MB between two uses, and the L2 holds {l2_bytes / 1e6:g} MB; "
            f"rotate over {copies_for(copy_bytes, l2_bytes)} copies and visit them all"
        )
    return touched


def check_missed(read_bytes: float, sectors: float, hits: float, least_bytes: float) -> tuple[bool, str]:
    """Whether a launch that is called cold missed the L2 for what it must read from memory, and what was seen, in words.

    Bytes read from memory, sectors looked up in the L2 and hits among them as Nsight Compute counted them (NaN: not counted);
    `least_bytes` must come from memory.  A pass that found what an earlier one had left has counted too few of either.
    """
    seen = (
        f"{read_bytes / 1e6:.3g} MB came from memory, {least_bytes / 1e6:.3g} MB must; {hits / sectors:.1%} of "
        f"{sectors:.0f} sectors hit the L2"
    )
    # A miss brings one sector of a line or more: counted as lines, those that missed hold at least what was read.
    return read_bytes >= MISSED * least_bytes and LINE_BYTES * (sectors - hits) >= MISSED * least_bytes, seen


def check_rate(moved_bytes: int, time_ns: float, peak_bytes_per_s: float) -> float:
    """Bytes per second of one sample; raises MeasureError above what the memory can do.

    `moved_bytes`: the least that had to come from or go to memory; `peak_bytes_per_s`: bus width
    times data rate, NaN when it is not known (then nothing is refused).
    """
    if not time_ns > 0:
        raise MeasureError(f"a sample of {time_ns} ns is no time: the events or stamps are wrong")
    rate = moved_bytes / time_ns * 1e9
    if rate > peak_bytes_per_s:
        raise MeasureError(
            f"faster than the memory: {rate / 1e9:.0f} GB/s where it can do "
            f"{peak_bytes_per_s / 1e9:.0f}; the work was not done, or the data came from a cache"
        )
    return rate
