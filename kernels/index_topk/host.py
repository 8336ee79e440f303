"""index_topk on the reference machine: every flag for real, on the CPU, one timed task at a time.

Stages: sample_gather, sample_scores, threshold, main (TMA -> Math -> TopK per query batch), then repair, or select when
the scores are stored.  A task touches one tile of HOST_TILE keys.  What a rung does not consume is folded into a checksum.
Misuse: counters are added where the work is done; never compute them from the flags.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from attribution.declare import Flags, Inputs, Knobs, Shape
from attribution.errors import InputError
from attribution.measure.host import Clock, HostRun, Stage
from attribution.schedule import Link, Pipeline, Role

from .candidates import Row, radix_select
from .inputs import TILE_KEYS
from .reference import ordered_keys
from .sizes import DIM, HEADS, segments

HOST_TILE = 1024
"""Keys of one task: eight MMA tiles, so that Python's own time stays under a tenth of a task."""
FP8 = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
"""All 256 values of e4m3."""

UNITS = {
    "tensor_instructions": "inst",
    "mma_flop": "FLOP",
    "tma_loads": "inst",
    "candidates": "entry",
    "selected": "entry",
    "scanned": "entry",
    "repaired_rows": "row",
}
TMA = Role("tma", "load", wait_free="stage_free")
MATH = Role("math", "score", wait_ready="stage_full", wait_free="slot_free")
TOPK = Role("topk", "select", wait_ready="slot_ready")
PLAIN = Pipeline((MATH,))


class Run:
    """One execution: inputs decoded once to float64 queries, flags as attributes, and the outputs so far."""

    def __init__(self, inputs: Inputs, shape: Shape, flags: Flags, knobs: Knobs, clock: Clock) -> None:
        self.inputs, self.flags, self.knobs, self.clock = inputs, flags, knobs, clock
        self.queries, self.keys, self.k = shape["q"], shape["n"], int(flags["K"])
        self.block_q, self.capacity = int(flags["BLOCK_Q"]), int(flags["SEGMENT_CAPACITY"])
        self.segments = segments(flags)
        self.k_bytes = np.asarray(inputs["k"]).view(np.uint8)
        self.q = FP8[np.asarray(inputs["q"]).view(np.uint8)]
        self.w = np.asarray(inputs["w"]).astype(np.float64)
        self.scale = np.asarray(inputs["k_scale"]).astype(np.float64)
        self.begin = np.asarray(inputs["k_start"]).astype(np.int64)
        self.end = np.asarray(inputs["k_end"]).astype(np.int64)
        self.batches = [
            slice(first, min(first + self.block_q, self.queries)) for first in range(0, self.queries, self.block_q)
        ]
        self.threshold = np.full(self.queries, -np.inf, dtype=np.float32)
        self.indices = np.full((self.queries, self.k), -1, dtype=np.int32)
        self.matrix = np.empty((self.queries, self.keys), np.float32) if flags["STORE_SCORES"] else None
        self.fold_int, self.fold_float = 0, 0.0
        self.failed = dict.fromkeys(("segment", "row", "underflow"), 0)
        self.repair_rows: list[int] = []

    # --- sampling -------------------------------------------------------------------------------------------------

    def sample(self) -> None:
        """Stages sample_gather, sample_scores and threshold: a key from each stratum, scored by the same arithmetic."""
        with self.clock.task("sample_gather", "math", 0):
            count = min(self.keys, max(512, min(4096, self.keys // 16)))
            stride = self.keys // count
            rng = np.random.default_rng(self.knobs["sample_seed"])
            where = np.arange(count) * stride + rng.integers(0, stride, count)
            sampled = self.k_bytes[where]
        for b, rows in enumerate(self.batches):
            with self.clock.task("sample_scores", "math", b):
                scores = self._reduce(self._dots(rows, sampled), rows, where)
            with self.clock.task("threshold", "math", b):
                for i, row in enumerate(range(rows.start, rows.stop)):
                    inside = (where >= self.begin[row]) & (where < self.end[row])
                    self.threshold[row] = self._order_statistic(scores[i][inside], row)

    def _order_statistic(self, sampled: NDArray[np.float32], row: int) -> np.float32:
        """The sampled score that about sqrt(K x capacity) of the row's keys should reach; -inf when all keys fit."""
        valid = int(self.end[row] - self.begin[row])
        target = float(np.sqrt(self.k * self.segments * self.capacity))
        rank = round(target * len(sampled) / valid) if valid else 0
        if valid <= target or rank >= len(sampled):
            return np.float32(-np.inf)
        rank = max(rank, 1)
        return np.float32(np.partition(sampled, len(sampled) - rank)[len(sampled) - rank])

    # --- the math path --------------------------------------------------------------------------------------------

    def _dots(self, rows: slice, key_bytes: NDArray[np.uint8]) -> NDArray[np.float64]:
        """q . k for [rows x 64 heads, keys]; exact."""
        a = self.q[rows].reshape(-1, DIM)
        return a @ FP8[key_bytes].T

    def _reduce(self, dots: NDArray[np.float64], rows: slice, keys: Any) -> NDArray[np.float32]:
        """Scores f32 [rows, keys]: ReLU, weights, heads summed in order, key scale.  -0 becomes +0."""
        count = rows.stop - rows.start
        relu = np.maximum(dots, 0.0, out=dots).reshape(count, HEADS, -1)
        relu *= self.w[rows][:, :, None]
        return (np.add.reduce(relu, axis=1) * self.scale[keys]).astype(np.float32) + np.float32(0.0)

    # --- main -----------------------------------------------------------------------------------------------------

    def main(self) -> None:
        """Stage main: tile loop of TMA and Math, then TopK, for every query batch."""
        stage_buffer = np.empty((HOST_TILE, DIM), dtype=np.uint8)
        for b, rows in enumerate(self.batches):
            low = int(self.begin[rows].min()) // TILE_KEYS * TILE_KEYS
            high = min(self.keys, -(-int(self.end[rows].max()) // TILE_KEYS) * TILE_KEYS)
            slots = [Row.empty(self.flags) for _ in range(rows.stop - rows.start)]
            for first in range(low, high, HOST_TILE):
                last = min(first + HOST_TILE, high)
                with self.clock.task("main", "tma", b):
                    tile = stage_buffer[: last - first]
                    tile[:] = self.k_bytes[first:last]
                    self.clock.count("main", "tma_loads", (last - first) // TILE_KEYS)
                with self.clock.task("main", "math", b):
                    self._math(rows, slots, tile, first)
            with self.clock.task("main", "topk", b):
                for i, row in enumerate(range(rows.start, rows.stop)):
                    self._topk(row, slots[i])

    def _math(self, rows: slice, slots: list[Row], tile: NDArray[np.uint8], first: int) -> None:
        """One tile: as far up the ladder as the flags say, and a fold of what is not consumed."""
        flags = self.flags
        if not flags["MMA"]:
            self.fold_int += int(tile.sum(dtype=np.uint64))
            return
        dots = self._dots(rows, tile)
        steps = -(-len(tile) // 64) * (DIM // 32)
        self.clock.count("main", "tensor_instructions", steps)
        self.clock.count("main", "mma_flop", 2 * dots.size * DIM)
        if not flags["REDUCE"]:
            self.fold_float += float(dots[0].sum())
            return
        keys = np.arange(first, first + len(tile))
        scores = self._reduce(dots, rows, slice(first, first + len(tile)))
        inside = (keys >= self.begin[rows, None]) & (keys < self.end[rows, None])
        if self.matrix is not None:
            self.matrix[rows, first : first + len(tile)] = np.where(inside, scores, -np.inf)
        elif not flags["FILTER"]:
            self.fold_int += int(ordered_keys(scores)[inside].sum(dtype=np.uint64))
        else:
            passing = inside & (scores >= self.threshold[rows, None])
            for i, slot in enumerate(slots):
                hits = np.flatnonzero(passing[i])
                self.clock.count("main", "candidates", len(hits))
                slot.append(ordered_keys(scores[i][hits]), (hits + first).astype(np.int32), self.flags)

    def _topk(self, row: int, slot: Row) -> None:
        """Certificate, then radix selection over the slot, or only the slot's release."""
        if not self.flags["FILTER"]:
            return
        wanted = min(self.k, int(self.end[row] - self.begin[row]))
        total = int(slot.counts.sum())
        if not self.flags["SELECT"]:
            self.fold_int += int(slot.keys.sum(dtype=np.uint64)) + sum(
                int(k.sum(dtype=np.uint64)) for k, _ in slot.spilled
            )
            return
        if total < wanted or slot.lost:
            cause = "underflow" if total < wanted else "row" if total > slot.keys.size else "segment"
            self.failed[cause] += 1
            self.repair_rows.append(row)
            return
        keys, index = slot.stored(self.flags)
        self.clock.count("main", "scanned", len(keys))
        chosen = radix_select(keys, wanted)
        self._emit(row, keys[chosen], index[chosen], "main")

    def _emit(self, row: int, keys: NDArray[np.uint32], index: NDArray[np.int32], stage: str) -> None:
        self.clock.count(stage, "selected", len(keys))
        if self.flags["EMIT"] or self.matrix is not None:
            self.indices[row, : len(index)] = index
        else:
            self.fold_int += int(keys.sum(dtype=np.uint64))

    # --- after main -----------------------------------------------------------------------------------------------

    def repair(self) -> None:
        """Stage repair: rows without a certificate, scored again over all their keys and selected exactly."""
        with self.clock.task("repair", "math", 0):
            rows = sorted(self.repair_rows)
            self.clock.count("repair", "repaired_rows", len(rows))
        for b, row in enumerate(rows, start=1):
            with self.clock.task("repair", "math", b):
                self._exact(row)

    def _exact(self, row: int) -> None:
        keys = slice(int(self.begin[row]), int(self.end[row]))
        dots = self._dots(slice(row, row + 1), self.k_bytes[keys])
        scores = ordered_keys(self._reduce(dots, slice(row, row + 1), keys)[0])
        chosen = radix_select(scores, min(self.k, len(scores)))
        self._emit(row, scores[chosen], (chosen + keys.start).astype(np.int32), "repair")

    def select(self) -> None:
        """Stage select of the unfused operator: numpy's own selection over the stored matrix, row by row."""
        assert self.matrix is not None
        for row in range(self.queries):
            with self.clock.task("select", "math", row):
                keys = slice(int(self.begin[row]), int(self.end[row]))
                scores = self.matrix[row, keys]
                wanted = min(self.k, len(scores))
                chosen = np.argpartition(scores, len(scores) - wanted)[len(scores) - wanted :]
                self._emit(
                    row,
                    ordered_keys(scores[chosen]),
                    (chosen + keys.start).astype(np.int32),
                    "select",
                )


def host(inputs: Inputs, shape: Shape, flags: Flags, knobs: Knobs, clock: Clock) -> HostRun:
    """Run the operator that the flags describe.  Output: {"indices": int32 [Q, K]} or {"checksum": number}.

    Raises InputError for a scorer or selector that is not this kernel's.
    """
    for name, here, whose in (("SCORER", "own", "another project's kernel"), ("SELECTOR", "torch", "another kernel")):
        if flags[name] != here:
            raise InputError(
                f"{name} = {flags[name]} is {whose}, which the reference machine does not have: "
                f"measure this variant on a GPU, or set {name} = {here}"
            )
    run = Run(inputs, shape, flags, knobs, clock)
    whole = run.matrix is not None
    if not whole:
        run.sample()
    run.main()
    if whole:
        run.select()
    elif flags["SELECT"]:
        run.repair()
    sizes = [rows.stop - rows.start for rows in run.batches]
    main = Pipeline(
        (TMA, MATH, TOPK),
        (Link(int(flags["KV_STAGES"]), "tile"), Link(2 if flags["OVERLAP"] else 1, "batch")),
    )
    stages = [Stage("main", main, sizes, ctas=knobs["ctas"], traced=True)]
    if not whole:
        sampling = [Stage(name, PLAIN, sizes) for name in ("sample_scores", "threshold")]
        stages = [Stage("sample_gather", PLAIN, [0]), *sampling, *stages]
    if whole:
        stages.append(Stage("select", PLAIN, [1] * run.queries))
    elif flags["SELECT"]:
        stages.append(Stage("repair", PLAIN, [0] + [1] * len(run.repair_rows)))
    done = whole or bool(flags["EMIT"])
    fold = run.fold_int % 2**64 if flags["REDUCE"] or not flags["MMA"] else run.fold_float
    failures = {limit: (n, run.queries) for limit, n in run.failed.items()}
    output = {"indices": run.indices} if done else {"checksum": fold, "threshold": run.threshold}
    return HostRun(output, tuple(stages), UNITS, failures)
