"""Key tiles by counting, and against the matrix instructions and loads that recordings counted."""

from __future__ import annotations

import json

import pytest

from attribution.analyze import roofline, tiles
from attribution.load import shipped_root
from attribution.recording import Recording, open_recording

FLAGS = {"STORE_SCORES": False, "SELECT_TILES": 100}


@pytest.mark.parametrize(("q", "n", "block_q", "keys"), [(7, 300, 4, 64), (8, 8, 2, 128), (1, 1000, 1, 256)])
def test_tiles_and_pairs_by_counting(q: int, n: int, block_q: int, keys: int) -> None:
    ends = [n - q + t + 1 for t in range(q)]
    batches = [ends[first : first + block_q] for first in range(0, q, block_q)]
    wanted = [sum(1 for key in range(0, n, keys) if key < max(rows)) for rows in batches]
    assert tiles.of_batches(q, n, block_q, keys).tolist() == wanted
    assert tiles.pairs(q, n, block_q, keys) == sum(
        t * keys * len(rows) for t, rows in zip(wanted, batches, strict=True)
    )
    assert tiles.pairs(q, n, block_q, keys) >= roofline.causal_pairs(q, n)


def test_the_busiest_cta_by_counting() -> None:
    rows = {**FLAGS, "BLOCK_Q": 4, "SCHEDULE": "rows"}
    each = tiles.of_batches(660, 131072, 4, 64)
    assert tiles.of_busiest_cta(660, 131072, rows, 132) == max(sum(each[c::132]) for c in range(132))
    shares = {**rows, "SCHEDULE": "shares"}
    assert tiles.of_busiest_cta(660, 131072, shares, 132) == -(-sum(each) // 132)
    assert tiles.of_busiest_cta(64, 4096, shares, 132) is None
    assert tiles.of_busiest_cta(64, 4096, {**shares, "STORE_SCORES": True}, 132) == -(-16 * 64 // 132)


def counted(recording: Recording, block_q: int, metric: str) -> float:
    runs, counters = recording.table("runs"), recording.table("counters")
    flags = {r: json.loads(f) for r, f in runs[["run", "flags"]].astype({"flags": str}).to_numpy().tolist()}
    whole = [r for r, f in flags.items() if f["BLOCK_Q"] == block_q and f["REDUCE"] and f["TRACE"] == 0]
    found = counters[counters["run"].isin(whole) & (counters["metric"] == metric) & (counters["instance"] == "")]
    return float(found["value"].median())


@pytest.mark.parametrize("block_q", [1, 2, 4])
def test_what_a_gpu_counted_is_that_many_tiles(block_q: int) -> None:
    """One tile of 256 pairs is 64 / BLOCK_Q matrix instructions of 64 x 64 BLOCK_Q x 32, by warp, and one load."""
    recording = open_recording(shipped_root() / "traces" / "h200-index-topk-block-q")
    shape = recording.manifest["plan"]["shape"]
    each = tiles.of_batches(shape["q"], shape["n"], block_q, tiles.tile_keys(block_q, "cuda"))
    instructions = counted(recording, block_q, "tensor_instructions")
    assert each.sum() == instructions / (64 / block_q)
    assert counted(recording, block_q, "tma_loads") == each.sum() + shape["q"]
    # Whose FLOP are those that the cycles of the tensor pipes tell.
    flop = roofline.mma_flop(instructions, n=64 * block_q)
    assert flop == tiles.pairs(shape["q"], shape["n"], block_q, 256 // block_q) * 2 * roofline.HEADS * roofline.DIM
    per_cycle = roofline.CHIPS["NVIDIA H200"].flop_per_cycle_sm / roofline.TENSOR_PIPES
    assert counted(recording, block_q, "tensor_cycles_active") * per_cycle == flop
