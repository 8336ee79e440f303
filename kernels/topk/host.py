"""topk on the reference machine: the same selection for real, row by row, with the same capacities and the same repairs.

In: inputs, resolved flags, knobs, a Clock.  Out: HostRun; output {"indices": int32 [Q, K]}.
Threads of the GPU are columns of a table here.  RESERVE and LOADS only say how a GPU does it, and change nothing.
Misuse: its virtual time says nothing about a GPU.
"""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attribution.declare import Flags, Inputs, Knobs, Shape
from attribution.measure.host import Clock, HostRun, Stage
from attribution.schedule import Pipeline, Role

from . import operator
from .inputs import ordered_keys

Keys = NDArray[np.uint32]
Places = NDArray[np.int64]
TOP = 0xFFFFFFFF
MINUS_ZERO, PLUS_ZERO, PLUS_INF = 0x7FFFFFFF, 0x80000000, 0xFF800000
MARGIN, GROUPS_MOST, GROUP_REACH = 5.0, 4, 48
LIMITS = ("underflow", "row", "uncertain")
"""Why a row is selected again: too few candidates, too many, or a list that may have lost one."""


def find(keys: Keys, k: int, low: int, hint: int, enough: int, bins: int) -> tuple[int, int, int, int]:
    """The interval [low, top] of the k-th largest key, how many keys are above it and how many inside: radix passes."""
    top, above, bits = TOP, 0, bins.bit_length() - 1
    while True:
        shift = max(0, (hint - low).bit_length() - bits)
        mine = keys[(keys >= low) & (keys <= top)].astype(np.int64)
        count = np.bincount(np.minimum((mine - low) >> shift, bins - 1), minlength=bins)
        upto = np.cumsum(count[::-1])[::-1]
        part = int(np.flatnonzero(upto >= k - above)[-1])
        inside = int(count[part])
        above += int(upto[part]) - inside
        low += part << shift
        if part < bins - 1:
            top = min(top, low + (1 << shift) - 1)
        if inside <= enough or above + inside == k or low == top:
            return low, top, above, inside
        hint = top


def largest(keys: Keys, k: int, low: int, hint: int, flags: Flags) -> tuple[Places, int]:
    """Positions of the k largest keys, and the lower end of the interval that holds the k-th."""
    ranged = flags["RADIX"] == "range"
    at = find(keys, k, low if ranged else 0, hint if ranged else TOP, 256 if ranged else 0, operator.bins(flags))
    winners = np.flatnonzero(keys > at[1])
    inside = np.flatnonzero((keys >= at[0]) & (keys <= at[1]))
    best = inside[np.argsort(keys[inside], kind="stable")[::-1]]
    return np.concatenate([winners, best[: k - len(winners)]]), at[0]


def rank_of(k: int, sampled: int, length: int) -> int:
    """How many sampled keys must reach the threshold so that k of the row do, MARGIN deviations away from failing."""
    expected, spread = k * sampled / length, MARGIN * math.sqrt(1 - sampled / length)
    return min(sampled, int((0.5 * (spread + math.sqrt(spread * spread + 4 * expected))) ** 2) + 1)


def sampled(length: int, row: int, threads: int) -> Places:
    """Elements of the sample: groups of four, each at a hashed place of its own stratum."""
    strata = min(GROUPS_MOST, (length - 1) // (GROUP_REACH * 4 * threads) + 1) * threads
    vectors, mine = (length + 3) // 4 - 2, np.arange(strata, dtype=np.uint32)
    x = (np.uint32(row * GROUPS_MOST * threads % 2**32) + mine) * np.uint32(0x9E3779B9)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    place = 1 + vectors * mine.astype(np.int64) // strata + x % np.uint32(vectors // strata)
    return (4 * place[:, None] + np.arange(4)).ravel()


class Run:
    """One execution: what its rows share."""

    def __init__(self, inputs: Inputs, shape: Shape, flags: Flags, clock: Clock) -> None:
        self.inputs, self.flags, self.clock = inputs, flags, clock
        self.k, self.threads = int(flags["K"]), int(flags["THREADS"])
        self.out = np.full((shape["q"], self.k), -1, np.int32)
        self.failed = dict.fromkeys(LIMITS, 0)

    def row(self, row: int) -> None:
        """All of one row."""
        columns = self.inputs["scores"].shape[1]
        first, last = max(0, int(self.inputs["start"][row])), min(columns, int(self.inputs["end"][row]))
        length = max(0, last - first)
        with self.clock.task("main", "cta", row):
            if length <= self.k:
                self.out[row, :length] = np.arange(first, last)
                seen = length
            else:
                places, seen = self.select(ordered_keys(self.inputs["scores"][row, first:last]), row)
                self.out[row] = first + places
        for metric, amount in (("rows", 1), ("keys", length), ("candidates", seen)):
            self.clock.count("main", metric, amount)

    def select(self, keys: Keys, row: int) -> tuple[Places, int]:
        """Positions of the k largest keys of a row that has more, and how many candidates there were."""
        low, hint = 0, TOP
        done = np.empty(0, np.int64)
        least: Keys | None = None
        if self.flags["ALGORITHM"] == "threshold":
            low, hint, found = self.threshold(keys, row)
        elif self.flags["ALGORITHM"] == "histogram":
            done, found = self.histogram(keys)
        else:
            found, least = self.lists(keys)
        why = ""
        if len(found) > int(self.flags["CANDIDATE_CAPACITY"]):
            why = "row"
        elif len(found) < self.k - len(done):
            why = "underflow"
        else:
            best, kth = largest(keys[found], self.k - len(done), low, hint, self.flags)
            if least is None or not (least > kth).any():
                return np.concatenate([done, found[best]]), len(found)
            why = "uncertain"
        self.failed[why] += 1
        known = why == "row"
        return largest(keys, self.k, low if known else 0, hint if known else TOP, self.flags)[0], len(found)

    def threshold(self, keys: Keys, row: int) -> tuple[int, int, Places]:
        """Threshold, largest sampled key, and the positions of the candidates; a short row is candidates as a whole."""
        if len(keys) <= 2 * max(4 * self.threads, self.k):
            return 0, TOP, np.arange(len(keys))
        sample = keys[sampled(len(keys), row, self.threads)]
        rank, hint = rank_of(self.k, len(sample), len(keys)), int(sample.max())
        low = find(sample, rank, int(sample.min()), hint, rank // 8, operator.bins(self.flags))[0]
        low = min(MINUS_ZERO if low == PLUS_ZERO else low, PLUS_INF)
        return low, max(hint, low), np.flatnonzero(keys >= low)

    def histogram(self, keys: Keys) -> tuple[Places, Places]:
        """Positions above the deciding bin of half-precision keys, and in it."""
        bits = np.where(keys >> np.uint32(31), keys ^ np.uint32(1 << 31), ~keys)
        with np.errstate(over="ignore"):
            half = bits.view(np.float32).astype(np.float16).view(np.uint16)
        ordered = np.where(half >> np.uint16(15), ~half, half | np.uint16(1 << 15))
        ordered[keys == TOP] = 0xFFFF
        part = ordered >> np.uint16(16 - (operator.bins(self.flags).bit_length() - 1))
        count = np.bincount(part, minlength=operator.bins(self.flags))
        pivot = int(np.flatnonzero(np.cumsum(count[::-1])[::-1] >= self.k)[-1])
        return np.flatnonzero(part > pivot), np.flatnonzero(part == pivot)

    def lists(self, keys: Keys) -> tuple[Places, Keys]:
        """What every thread kept, and the least key of each list (0 while it had room)."""
        slots, threads = operator.LIST_SLOTS, self.threads
        mine = np.full(-(-len(keys) // (4 * threads)) * 4 * threads, -1, np.int64)
        mine[: len(keys)] = np.arange(len(keys))
        table = mine.reshape(-1, threads, 4).transpose(1, 0, 2).reshape(threads, -1)  # thread, what it sees in order
        if table.shape[1] <= slots:
            return np.arange(len(keys)), np.zeros(threads, np.uint32)
        seen = np.where(table >= 0, keys[table], np.uint32(0))
        if self.flags["ALGORITHM"] == "online":
            kept = np.argpartition(seen, seen.shape[1] - slots, axis=1)[:, -slots:]
        else:
            kept = np.array([_heap(values, slots) for values in seen.tolist()])
        found = np.take_along_axis(table, kept, axis=1)
        least = np.take_along_axis(seen, kept, axis=1).min(axis=1)
        return found[found >= 0], least


def _heap(values: list[int], slots: int) -> list[int]:
    """Positions of the `slots` largest values, by a heap with the least at its root."""
    heap = [(value, place) for place, value in enumerate(values[:slots])]
    heapq.heapify(heap)
    for place in range(slots, len(values)):
        if values[place] > heap[0][0]:
            heapq.heapreplace(heap, (values[place], place))
    return [place for _, place in heap]


def host(inputs: Inputs, shape: Shape, flags: Flags, knobs: Knobs, clock: Clock) -> HostRun:
    """Run the selection that the flags describe."""
    run = Run(inputs, shape, flags, clock)
    for row in range(shape["q"]):
        run.row(row)
    pipeline = Pipeline((Role("cta", work="select"),))
    ctas = min(knobs["ctas"], shape["q"])
    stage = Stage("main", pipeline, [1] * shape["q"], ctas, traced=True)
    failures = {limit: (count, shape["q"]) for limit, count in run.failed.items()}
    units: dict[str, Any] = {"rows": "1", "keys": "1", "candidates": "1"}
    return HostRun({"indices": run.out}, (stage,), units, failures)
