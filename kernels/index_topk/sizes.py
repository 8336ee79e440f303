"""Sizes that Python and the CUDA source both know, as they follow from the flags, and which flags a GPU cannot have.

In: flags.  Out: numbers.  The source asserts what would be dangerous if the two disagreed.
"""

from __future__ import annotations

from attribution.declare import Flags

HEADS = 64
DIM = 128
SPILL_ROW = 2048
"""Entries of a row's spill, shared out evenly behind its segments."""
BINS, LIST = 512, 256
WALK = 1024
"""Entries that a selecting warp may read past the end of a row's last segment."""
MERGE_THREADS, PLAN_THREADS, THRESHOLD_THREADS = 256, 512, 128
THRESHOLD_ROWS = THRESHOLD_THREADS // 32
"""Rows of one block of the threshold stage: a warp each."""
INFO_BYTES, PIECE_BYTES = 32, 16
"""What the kernel knows of a row, and of a part of a query batch (shape.cuh: Info, Piece)."""
SMEM_MOST_BYTES = 232_448
"""Dynamic shared memory that a block of sm_90 may ask for."""
KEYS_MOST = 1 << 19
"""Products of a key's number and the size of the sample fit 32 bits (stages.cuh)."""
K_ALLOWED = (512, 1024, 2048)


def tile_keys(flags: Flags) -> int:
    """Keys of one stage of the ring."""
    return 256 // int(flags["BLOCK_Q"])


def segments(flags: Flags) -> int:
    """Segments of a row's slot: one, one per Math warp, or two per Math warp."""
    warps = 4 * int(flags["MATH_WARPGROUPS"])
    return {"shared": 1, "segments": warps, "split": 2 * warps}[str(flags["LAYOUT"])]


def row_room(flags: Flags) -> int:
    """Candidate entries of a row's slot, spill included."""
    return segments(flags) * int(flags["SEGMENT_CAPACITY"]) + (SPILL_ROW if flags["SPILL"] else 0)


def slots(flags: Flags) -> int:
    """Candidate slots of a CTA."""
    return 2 if flags["OVERLAP"] else 1


def threads(flags: Flags) -> int:
    """Threads of a CTA of the scoring kernels: Math, TopK, and one warp that loads."""
    return 128 * int(flags["MATH_WARPGROUPS"]) + 32 * int(flags["TOPK_WARPS"]) + 32


def smem_bytes(flags: Flags) -> int:
    """At least sizeof(shape::Smem); the kernel traps when it is less."""
    block_q, stages, seg = int(flags["BLOCK_Q"]), int(flags["KV_STAGES"]), segments(flags)
    queries = 2 * block_q * (HEADS * DIM + HEADS * 4 + INFO_BYTES) + 2 * PIECE_BYTES
    ring = stages * tile_keys(flags) * (DIM + 4)
    slot = PIECE_BYTES + block_q * (INFO_BYTES + 4 * seg)
    barriers = 8 * (2 * stages + 4 + 2 * slots(flags))
    select = int(flags["TOPK_WARPS"]) * ((BINS + 32) * 4 + (LIST + 2) * 8 + 8 * 4)
    total = queries + ring + slots(flags) * slot + barriers + select
    return (total + 256 + 1023) // 1024 * 1024


def sample_size(keys: int) -> int:
    """Sampled keys: 1/64 of long rows, at least 256; a multiple of every tile."""
    return min(max(256, keys // 64 // 256 * 256), 4096)


def illegal(flags: Flags) -> str | None:
    """The reason why the GPU source cannot be built or launched with these flags, or None."""
    warpgroups, block_q = int(flags["MATH_WARPGROUPS"]), int(flags["BLOCK_Q"])
    if int(flags["KV_STAGES"]) % warpgroups:
        return (
            f"KV_STAGES = {flags['KV_STAGES']} is no multiple of MATH_WARPGROUPS = {warpgroups}: "
            "a stage that two warpgroups read in turn can be taken before the other's tile has arrived"
        )
    if int(flags["SEGMENT_CAPACITY"]) % 2:
        return f"SEGMENT_CAPACITY = {flags['SEGMENT_CAPACITY']}: candidates are read in pairs, so it must be even"
    lanes = 1024 if flags["TRACE"] else 0  # static, in front of what has to be aligned to 1024
    if (size := smem_bytes(flags) + lanes) > SMEM_MOST_BYTES:
        return f"{size} bytes of shared memory at BLOCK_Q {block_q}: at most {SMEM_MOST_BYTES}; lower KV_STAGES"
    return None
