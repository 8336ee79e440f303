"""What index_topk must answer, computed another way than the host machine does, and the check of every rung against it.

Scores: FP8 products and their sums over 128 dimensions are exact in float64 (43 bits at most), in any order; the weighted
sum over heads is rounded, so its order is part of the definition: head 0 to head 63, then times the key's scale, then to
float32.  Ties may be broken in any way, so a selection is compared by its sorted scores, never by its indices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attribution.declare import Check, Flags, Inputs, Shape

from .inputs import TILE_KEYS, WARP_KEYS
from .sizes import DIM, HEADS, SPILL_ROW, segments


@dataclass(frozen=True)
class Reference:
    """scores: f32 [Q, N], -inf outside a row's bounds; q and k as float64; key_bytes: running sum of the keys' bytes [N+1]."""

    scores: NDArray[np.float32]
    q: NDArray[np.float64]
    k: NDArray[np.float64]
    key_bytes: NDArray[np.uint64]


def reference(inputs: Inputs, shape: Shape) -> Reference:
    """All scores, one row at a time over all keys, heads summed one by one."""
    q = np.asarray(inputs["q"]).astype(np.float64)
    k = np.asarray(inputs["k"]).astype(np.float64)
    scale = np.asarray(inputs["k_scale"]).astype(np.float64)
    scores = np.full((shape["q"], shape["n"]), -np.inf, dtype=np.float32)
    for row in range(shape["q"]):
        begin, end = int(inputs["k_start"][row]), int(inputs["k_end"][row])
        dots = k[begin:end] @ q[row].T
        total = np.zeros(end - begin)
        for head in range(HEADS):
            total = total + np.maximum(dots[:, head], 0.0) * float(inputs["w"][row, head])
        scores[row, begin:end] = (total * scale[begin:end]).astype(np.float32) + np.float32(0.0)
    raw = np.asarray(inputs["k"]).view(np.uint8).reshape(-1, DIM).sum(axis=1, dtype=np.uint64)
    return Reference(scores, q, k, np.concatenate([[np.uint64(0)], np.cumsum(raw, dtype=np.uint64)]))


def ordered_keys(scores: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Float32 bits as unsigned integers in the order of the numbers."""
    bits = scores.view(np.uint32)
    return np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31))


def check(inputs: Inputs, output: Any, ref: Reference, shape: Shape, flags: Flags) -> list[Check]:
    """Checks of the rung that the flags describe.  `output` is a dict: indices [Q, K] int32, or checksum."""
    if "indices" in output:
        return check_indices(inputs, output["indices"], ref, int(flags["K"]))
    if flags["FILTER"] and not flags["SELECT"]:
        wanted: int | float = _stored_candidates(ref, output["threshold"], flags)
    else:
        wanted = _checksum(inputs, ref, shape, flags)
    got = output["checksum"]
    return [Check("checksum", bool(got == wanted), f"{got} against {wanted} of the reference")]


def check_indices(inputs: Inputs, indices: NDArray[np.int32], ref: Reference, k: int) -> list[Check]:
    """Every row: right count, inside the bounds, no index twice, -1 after, and the scores of the true top K."""
    begin = np.asarray(inputs["k_start"])[:, None]
    end = np.asarray(inputs["k_end"])[:, None]
    filled = indices >= 0
    wanted = np.minimum(k, (end - begin)[:, 0])
    inside = ((indices >= begin) & (indices < end)) | ~filled
    order = np.sort(indices, axis=1)
    twice = ((order[:, 1:] == order[:, :-1]) & (order[:, 1:] >= 0)).any(axis=1)
    safe = np.clip(indices, 0, ref.scores.shape[1] - 1)
    got = np.where(filled, np.take_along_axis(ref.scores, safe, axis=1), -np.inf)
    top = -np.sort(-ref.scores, axis=1)[:, :k]
    same = (-np.sort(-got, axis=1) == top).all(axis=1)
    count = (filled.sum(axis=1) == wanted) & ((indices == -1) | filled).all(axis=1)
    good = {"selected_count": count, "inside_bounds": inside.all(axis=1), "unique": ~twice, "top_k_scores": same}
    return [Check.of_rows(name, rows) for name, rows in good.items()]


def _checksum(inputs: Inputs, ref: Reference, shape: Shape, flags: Flags) -> int | float:
    """What a rung without EMIT folds into one number."""
    block_q, k = int(flags["BLOCK_Q"]), int(flags["K"])
    if flags["SELECT"]:
        top = -np.sort(-ref.scores, axis=1)[:, :k]
        return int(ordered_keys(top)[np.isfinite(top)].sum(dtype=np.uint64))
    if flags["REDUCE"]:
        return int(ordered_keys(ref.scores)[np.isfinite(ref.scores)].sum(dtype=np.uint64))
    total_bytes, total_dots = 0, 0.0
    for first in range(0, shape["q"], block_q):
        rows = slice(first, first + block_q)
        low = int(inputs["k_start"][rows].min()) // TILE_KEYS * TILE_KEYS
        high = min(shape["n"], -(-int(inputs["k_end"][rows].max()) // TILE_KEYS) * TILE_KEYS)
        total_bytes += int(ref.key_bytes[high] - ref.key_bytes[low])
        total_dots += float(ref.q[first, 0] @ ref.k[low:high].sum(axis=0))
    return total_dots if flags["MMA"] else total_bytes


def _stored_candidates(ref: Reference, threshold: NDArray[np.float32], flags: Flags) -> int:
    """Sum of the ordered keys that segments and spill must hold, given the thresholds that were used."""
    count, width = segments(flags), WARP_KEYS // (2 if flags["LAYOUT"] == "split" else 1)
    room = int(flags["SEGMENT_CAPACITY"]) + (SPILL_ROW // count if flags["SPILL"] else 0)
    total = 0
    for row in range(len(ref.scores)):
        scores = ref.scores[row]
        index = np.flatnonzero((scores >= threshold[row]) & (scores > -np.inf))
        for segment in range(count):
            mine = index[index // width % count == segment][:room]
            total += int(ordered_keys(scores[mine]).sum(dtype=np.uint64))
    return total % 2**64
