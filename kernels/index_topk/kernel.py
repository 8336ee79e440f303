"""index_topk: fused FP8 indexer scoring + exact top-k (DeepSeek sparse attention, prefill).

score[t, s] = k_scale[s] * sum over 64 heads of w[t, h] * ReLU(q[t, h] . k[s]); per row the K best keys inside its bounds.
Roles: TMA loads key tiles, Math scores and filters them against a sampled threshold, TopK selects from the candidates.
The declaration only: arithmetic is in host.py, answers in reference.py.
"""

from __future__ import annotations

from attribution.declare import Axis, Entry, Event, Flag, Flags, Kernel, Knobs, Shape
from attribution.errors import InputError

from . import sizes
from .host import host
from .inputs import DISTRIBUTIONS, TILE_KEYS, make
from .reference import check, reference
from .sizes import segments

FLAGS = {
    "MMA": Flag(True, "matrix work; off: tiles are loaded and folded"),
    "REDUCE": Flag(True, "ReLU, weights and sum over heads; off: one accumulator a tile is kept alive"),
    "FILTER": Flag(True, "candidates above the threshold are stored; off: scores are folded"),
    "SELECT": Flag(True, "TopK selects from the candidates; off: it only frees the slot"),
    "EMIT": Flag(True, "indices are written; off: the selection is folded"),
    "OVERLAP": Flag(True, "two candidate slots; off: one, so Math waits for TopK"),
    "LAYOUT": Flag(
        "segments",
        "candidates of a row: one list, or one or two per Math warp",
        ("shared", "split", "segments"),
    ),
    "SEGMENT_CAPACITY": Flag(736, "entries of one segment"),
    "SCAN": Flag("counts", "TopK walks the reserved capacity or the actual counts", ("reserved", "counts")),
    "SPILL": Flag(True, "a segment that is full spills; off: its row is computed again"),
    "BLOCK_Q": Flag(4, "query rows of a batch", (1, 2, 4)),
    "KV_STAGES": Flag(8, "key tiles in flight", (1, 2, 3, 4, 5, 6, 8, 10, 12)),
    "MATH_WARPGROUPS": Flag(2, "warpgroups of the Math role", (1, 2)),
    "TOPK_WARPS": Flag(3, "warps of the TopK role; the reference machine has one thread a role", (3, 7)),
    "REDUCE_MATH": Flag(
        "f16",
        "accumulators and sums over heads on a GPU: f32 both; packed: f32, summed in f16x2; f16: both; the host: float64",
        ("f32", "packed", "f16"),
    ),
    "PINGPONG": Flag(True, "f32 accumulators: the two Math warpgroups take turns at the tensor cores (GPU)"),
    "SCHEDULE": Flag(
        "shares", "a CTA takes whole batches c, c + ctas, ...; or an equal share of all tiles (GPU)", ("rows", "shares")
    ),
    "SELECT_TILES": Flag(100, "SCHEDULE = shares: what one selection costs, in key tiles of BLOCK_Q 4 (GPU)"),
    "STORE_SCORES": Flag(False, "write the score matrix and select from it afterwards: the unfused operator"),
    "SCORER": Flag(
        "own",
        "what writes the score matrix: this kernel, or DeepGEMM's fp8_mqa_logits where its wheel is installed (GPU)",
        ("own", "deep_gemm"),
    ),
    "SELECTOR": Flag(
        "torch",
        "what selects from a score matrix that was written: torch.topk, or kernel topk (GPU)",
        ("torch", "topk"),
    ),
    "K": Flag(2048, "keys to select per row", (512, 1024, 2048)),
    "TRACE": Flag(0, "0 none, 1 per query batch, 2 per tile", (0, 1, 2)),
    "DELAY_ROLE": Flag("none", "role that is held up in every item of its work", ("none", "tma", "math", "topk")),
    "DELAY_CYCLES": Flag(0, "how long, in cycles"),
}


def illegal(flags: Flags) -> str | None:
    """The reason why these flags exclude each other, or None."""
    ladder = ("MMA", "REDUCE", "FILTER", "SELECT", "EMIT")
    for lower, upper in zip(ladder, ladder[1:], strict=False):
        if flags[upper] and not flags[lower]:
            return f"{upper} needs {lower}: the ladder has no rung without it"
    if flags["STORE_SCORES"] and (flags["FILTER"] or not flags["REDUCE"]):
        return "STORE_SCORES writes reduced scores instead of filtering: set REDUCE = true and FILTER = false"
    if flags["SCORER"] != "own" and not flags["STORE_SCORES"]:
        return f"SCORER = {flags['SCORER']} writes a score matrix and fuses nothing: set STORE_SCORES = true"
    capacity = segments(flags) * int(flags["SEGMENT_CAPACITY"])
    if capacity < int(flags["K"]):
        return (
            f"capacity {capacity} ({segments(flags)} segments of {flags['SEGMENT_CAPACITY']}) is below K = {flags['K']}: "
            "raise SEGMENT_CAPACITY"
        )
    if (flags["DELAY_ROLE"] == "none") != (flags["DELAY_CYCLES"] == 0):
        return "DELAY_ROLE and DELAY_CYCLES go together: set both or neither"
    return sizes.illegal(flags)


def illegal_shape(shape: Shape, flags: Flags, knobs: Knobs) -> None:
    """Raises InputError for sizes that the axes alone do not exclude."""
    if shape["n"] < int(flags["K"]):
        raise InputError(f"n = {shape['n']} is below K = {flags['K']}: allowed is n >= K")
    if shape["q"] > shape["n"]:
        raise InputError(f"q = {shape['q']} is above n = {shape['n']}: causal rows need q <= n")


KERNEL = Kernel(
    name="index_topk",
    summary="fused FP8 indexer scoring + exact top-k",
    flags=FLAGS,
    shape={
        "q": Axis(144, "query rows", gpu=4096),
        "n": Axis(8192, "keys", least=TILE_KEYS, multiple=TILE_KEYS, gpu=131072),
    },
    knobs={
        "sms": Axis(16, "SMs; on a GPU the device's own number", most=1 << 16),
        "ctas": Axis(1, "persistent CTAs", times="sms", most=1 << 20),
        "sample_seed": Axis(0, "which keys are sampled for the threshold", least=0),
    },
    roles=("tma", "math", "topk"),
    events=(
        Event("stage_free", "tma", waits_for="math", level=2),
        Event("load", "tma"),
        Event("stage_full", "math", waits_for="tma", level=2),
        Event("slot_free", "math", waits_for="topk"),
        Event("score", "math"),
        Event("slot_ready", "topk", waits_for="math"),
        Event("select", "topk"),
    ),
    distributions=DISTRIBUTIONS,
    same={
        "tensor_instructions": "dynamic matrix instructions",
        "mma_flop": "floating-point operations of the matrix instructions",
        "tma_loads": "dynamic key-tile loads",
        "candidates": "entries that passed the threshold",
        "scanned": "entries that selection walked over",
        "ctas": "persistent CTAs",
        "sms": "SMs",
    },
    inputs=make,
    reference=reference,
    check=check,
    host=host,
    source="index_topk.cu",
    entries=(
        *(Entry(f"index_{name}", sizes.threads, sizes.smem_bytes) for name in ("main", "sample", "repair")),
        Entry("index_merge", lambda flags: sizes.MERGE_THREADS, lambda flags: 0),
        Entry("index_prepare", lambda flags: sizes.PLAN_THREADS, lambda flags: 0),
        Entry("index_threshold", lambda flags: sizes.THRESHOLD_THREADS, lambda flags: 4 * 4 * 256),
    ),
    gpu="gpu",
    illegal=illegal,
    illegal_shape=illegal_shape,
)
