"""Candidates of one row on the reference machine: where they are stored, what selection walks, and the selection itself."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attribution.declare import Flags

from .inputs import WARP_KEYS
from .sizes import SPILL_ROW, segments


@dataclass
class Row:
    """Segments of fixed capacity with true counts, and the spill behind each."""

    keys: NDArray[np.uint32]  # [segments, capacity]
    index: NDArray[np.int32]  # [segments, capacity]
    counts: NDArray[np.int64]  # [segments], attempts, also those past the capacity
    spilled: list[tuple[NDArray[np.uint32], NDArray[np.int32]]] = field(default_factory=list)
    lost: bool = False

    @classmethod
    def empty(cls, flags: Flags) -> Row:
        room = segments(flags), int(flags["SEGMENT_CAPACITY"])
        return cls(np.zeros(room, np.uint32), np.zeros(room, np.int32), np.zeros(room[0], np.int64))

    def append(self, keys: NDArray[np.uint32], index: NDArray[np.int32], flags: Flags) -> None:
        """Store candidates into the segments of their Math warps, in key order; then into the spill, or lose the row."""
        count, capacity = self.keys.shape
        segment = segment_of(index, str(flags["LAYOUT"]), count)
        order = np.argsort(segment, kind="stable")
        sorted_segments = segment[order]
        added = np.bincount(segment, minlength=count)
        starts = np.cumsum(added) - added
        place = self.counts[sorted_segments] + np.arange(len(order)) - starts[sorted_segments]
        fits = place < capacity
        self.keys[sorted_segments[fits], place[fits]] = keys[order[fits]]
        self.index[sorted_segments[fits], place[fits]] = index[order[fits]]
        self.counts += added
        if not fits.all():
            spilled = ~fits & (place < capacity + SPILL_ROW // count) & bool(flags["SPILL"])
            self.spilled.append((keys[order[spilled]], index[order[spilled]]))
            self.lost |= bool((~fits & ~spilled).any())

    def stored(self, flags: Flags) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
        """What selection walks: the reserved capacity (unused entries are key 0, below every score), or the true counts."""
        if flags["SCAN"] == "reserved":
            keys, index = [self.keys.ravel()], [self.index.ravel()]
        else:
            filled = np.minimum(self.counts, self.keys.shape[1])
            keys = [row[:n] for row, n in zip(self.keys, filled, strict=True)]
            index = [row[:n] for row, n in zip(self.index, filled, strict=True)]
        return (
            np.concatenate([*keys, *(k for k, _ in self.spilled)]),
            np.concatenate([*index, *(i for _, i in self.spilled)]),
        )


def segment_of(index: NDArray[np.int32], layout: str, count: int) -> NDArray[np.int64]:
    """The segment that owns each key: the warp of its 16 keys of the tile, or its half for `split`."""
    width = WARP_KEYS // 2 if layout == "split" else WARP_KEYS
    return (index.astype(np.int64) // width) % count


def radix_select(keys: NDArray[np.uint32], wanted: int) -> NDArray[np.int64]:
    """Positions of the `wanted` greatest keys, by four passes over 8 bits; ties at the last one in storage order."""
    candidates = np.arange(len(keys))
    chosen: list[NDArray[np.int64]] = []
    for shift in (24, 16, 8, 0):
        if wanted == 0 or wanted == len(candidates):
            break
        digits = (keys[candidates] >> np.uint32(shift)) & np.uint32(255)
        above = np.cumsum(np.bincount(digits, minlength=256)[::-1])[::-1]
        pivot = int(np.flatnonzero(above >= wanted)[-1])
        chosen.append(candidates[digits > pivot])
        wanted -= len(chosen[-1])
        candidates = candidates[digits == pivot]
    return np.concatenate([*chosen, candidates[:wanted]])
