"""Useful arithmetic, matrix instructions and ceilings against published figures."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from attribution.analyze import roofline
from attribution.errors import DataError

PUBLISHED = Path(__file__).parents[1] / "data" / "published"
H20 = roofline.CHIPS["NVIDIA H20-3e"]


def test_pairs_by_counting() -> None:
    for q, n in ((1, 1), (3, 8), (8, 8)):
        assert roofline.causal_pairs(q, n) == sum(n - q + t + 1 for t in range(q))
    with pytest.raises(DataError, match="q <= n"):
        roofline.causal_pairs(9, 8)


@pytest.mark.parametrize(("n", "name"), [(16384, "Q4096_N16K"), (163840, "Q4096_N160K")])
def test_published_times_give_the_published_tflops(n: int, name: str) -> None:
    ms = pd.read_csv(PUBLISHED / "operator_q4096.csv").set_index("n").loc[n]
    rates = pd.read_csv(PUBLISHED / "version_trajectory.csv").set_index(["shape", "version"])["tflops"]
    # Two measurements of one pair of versions (graph and eager): within 2 %.
    for column, version in (("fused_ms", "public"), ("deepgemm_deepselect_ms", "deepgemm_deepselect")):
        assert roofline.tflops(roofline.useful_flop(4096, n), ms[column] * 1e6) == pytest.approx(
            rates[name, version], rel=0.02
        )


def test_published_overturned_expectation_is_145_tflops() -> None:
    assert round(roofline.tflops(roofline.useful_flop(4096, 16384), 6.616e6)) == 145


def test_published_shares_of_the_data_sheet() -> None:
    table = pd.read_csv(PUBLISHED / "main_kernel_utilization.csv")
    shares = 100 * table["tflops"] * 1e12 / H20.fp8_flop_per_s
    assert (shares - table["pct_of_spec_peak"]).abs().max() < 0.25


def test_published_matrix_flop_agree_across_block_q() -> None:
    counts = pd.read_csv(PUBLISHED / "counters_block_q.csv").set_index("metric").loc["qgmma_dynamic"]
    flop = {b: roofline.mma_flop(counts[f"block_q_{b}"] * 1e6, n=64 * b) for b in (1, 2)}
    assert flop[2] == pytest.approx(flop[1], rel=1e-3)
    useful = roofline.useful_flop(512, 131072 + 512)
    # Whole tiles at the causal edge: a little above the useful ones, never below (but for the rounding of the counts).
    assert 0.9995 < flop[1] / useful < 1.005
    # The counts themselves do not agree: without the shape the check would be void.
    assert counts["block_q_1"] / counts["block_q_2"] == pytest.approx(2, rel=1e-3)


def test_published_tiles_are_read_twice_as_often_and_the_cycles_of_a_query_stay() -> None:
    table = pd.read_csv(PUBLISHED / "counters_block_q.csv").set_index("metric")[["block_q_1", "block_q_2"]]
    loads, cycles = table.loc["tma_loads_dynamic"], table.loc["math_cycles_per_query"]
    read = {b: roofline.l2_bytes(512, 131072 + 512, b) for b in (1, 2)}
    assert loads["block_q_1"] / loads["block_q_2"] == pytest.approx(
        read[1] / read[2], rel=0.02
    )  # printed to 0.01 million
    assert cycles["block_q_1"] == pytest.approx(cycles["block_q_2"], rel=0.005)


def test_bytes_and_intensity() -> None:
    assert roofline.l2_bytes(4, 256, 2) == 2 * 256 * 132
    assert roofline.l2_bytes(4, 260, 1) == 4 * 384 * 132
    found = {b: roofline.point(4096, 131072, 2048, b, 31.912e6, 0.95 * H20.fp8_flop_per_s, H20) for b in (1, 2, 4)}
    assert found[2]["l2_intensity"] == pytest.approx(2 * found[1]["l2_intensity"], rel=1e-3)
    assert found[4]["l2_intensity"] == pytest.approx(4 * found[1]["l2_intensity"], rel=1e-3)
    assert found[1]["dram_intensity"] == found[4]["dram_intensity"] > found[1]["dram_ridge"]
    assert found[1]["floor_spec_ns"] < found[1]["floor_practical_ns"] < 31.912e6


def test_faster_than_the_chip_is_refused() -> None:
    with pytest.raises(DataError, match="above 296 of the data sheet"):
        roofline.point(4096, 131072, 2048, 1, 20e6, chip=H20)
    slow_memory = roofline.Chip("planted", 1e18, 864e9)
    with pytest.raises(DataError, match="not read from memory"):
        roofline.point(8, 131072, 2048, 1, 1e3, chip=slow_memory)
    with pytest.raises(DataError, match="not defined"):
        roofline.tflops(1, 0)
