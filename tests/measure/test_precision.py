"""What the committed recordings say of small effects, recomputed; and that the same counting sees a bias."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attribution.recording import open_recording
from bench import precision
from bench.precision import Blocks, blocks, log_ratios, planted_effect

TRACES = Path(__file__).parents[2] / "traces"


@pytest.fixture(scope="module")
def nulls() -> list[tuple[str, Blocks]]:
    return list(precision.null_blocks(precision.rested(TRACES)))


def test_equal_arms_are_rarely_called_over_at_least_200_disjoint_blocks_and_several_shapes(
    nulls: list[tuple[str, Blocks]],
) -> None:
    count, called = sum(len(b.ratios) for _, b in nulls), sum(b.called() for _, b in nulls)
    assert count >= 200
    assert len({what.split(":")[1].split(", graph")[0] for what, _ in nulls}) >= 3
    assert called <= count * 8 // 100


def test_the_same_blocks_are_called_when_an_arm_is_slower(nulls: list[tuple[str, Blocks]]) -> None:
    """Planted: every arm of the null blocks 2 % slower."""
    slow = [Blocks(b.ratios + np.log(1.02), b.tick) for _, b in nulls]
    count = sum(len(b.ratios) for b in slow)
    assert sum(b.called() for b in slow) > 0.8 * count
    assert sum(b.holding(0.02) for b in slow) > 0.9 * count
    assert sum(b.holding(0.0) for b in slow) < 0.2 * count


def test_blocks_are_disjoint_whole_and_drawn_by_the_seed() -> None:
    rounds = np.arange(26.0)
    for seed in range(8):
        found = blocks(rounds, 0.0, 6, seed).ratios
        assert found.shape == (4, 6)
        assert np.unique(found).size == 24
        assert (np.diff(found.ravel()) == 1).all()
    assert len({float(blocks(rounds, 0.0, 6, seed).ratios[0, 0]) for seed in range(8)}) > 1
    assert blocks(rounds[:5], 0.0, 6).ratios.size == 0


def test_a_slow_down_of_0_3_percent_in_the_kernel_is_found_in_every_run() -> None:
    recording = open_recording(TRACES / precision.PLANTED)
    effect = planted_effect(recording)
    assert 0.0025 < effect < 0.0035
    slow = blocks(*log_ratios(recording, "full", "planted", "operator", "graph"), 6)
    assert len(slow.ratios) == 20
    assert (slow.ratios.mean(axis=1) > 0).all()
    assert slow.holding(effect) >= 17


def test_a_third_of_what_is_detectable_is_not_claimed() -> None:
    null, tick = log_ratios(open_recording(TRACES / precision.PLANTED), "full", "null", "operator", "graph")
    equal = blocks(null, tick, 6).ratios
    third = precision.stats.detectable_effect(equal)[:, None] / 3
    assert Blocks(equal + third, tick).called() <= 3
    # What is ten times as large is.
    assert Blocks(equal + 10 * third, tick).called() >= 17


def test_the_detectable_effect_at_131072_keys_on_the_steadier_card() -> None:
    null, _ = log_ratios(open_recording(TRACES / precision.OTHER_CARD), "full", "null", "operator", "graph")
    assert precision.stats.detectable_effect(null)[0] <= 0.0015
