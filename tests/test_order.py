"""Orders of arms: balance is counted, and a rotation must be told from a balanced design."""

from __future__ import annotations

import itertools

import pytest

from attribution.errors import InputError
from attribution.order import carryover_counts, imbalance, position_counts, rounds, williams


def test_williams_of_four_has_every_ordered_pair_once() -> None:
    design = williams(4)
    pairs = [pair for row in design for pair in itertools.pairwise(row)]
    assert len(design) == 4
    assert sorted(pairs) == sorted(itertools.permutations(range(4), 2))


@pytest.mark.parametrize("arms", range(1, 14))
def test_every_design_is_balanced(arms: int) -> None:
    design = williams(arms)
    assert len(design) == (arms if arms % 2 == 0 or arms == 1 else 2 * arms)
    assert all(sorted(row) == list(range(arms)) for row in design)
    times = len(design) // arms
    assert all(n == times for row in position_counts(design) for n in row)
    for a, b in itertools.permutations(range(arms), 2):
        assert carryover_counts(design)[a][b] == times
    assert imbalance(design) == ""


def test_rotation_is_not_balance() -> None:
    rotation = [[(arm + shift) % 4 for arm in range(4)] for shift in range(4)]
    assert all(n == 1 for row in position_counts(rotation) for n in row)
    assert carryover_counts(rotation)[0] == [0, 3, 0, 0]
    assert imbalance(rotation) == "an arm follows another 0 to 3 times"


def test_a_fixed_order_is_unbalanced_in_both_ways() -> None:
    found = imbalance([[0, 1, 2]] * 6)
    assert "position 0 to 6 times" in found
    assert "follows another 0 to 6 times" in found


@pytest.mark.parametrize(("arms", "count"), [(2, 20), (3, 18), (4, 20), (5, 30), (7, 28)])
@pytest.mark.parametrize("seed", [0, 1, 7])
def test_rounds_are_balanced_at_multiples_of_the_design(arms: int, count: int, seed: int) -> None:
    assert imbalance(rounds(arms, count, seed)) == ""


@pytest.mark.parametrize("seed", range(5))
def test_rounds_cut_short_at_whole_squares_keep_positions(seed: int) -> None:
    assert all(n == 3 for row in position_counts(rounds(5, 15, seed)) for n in row)


def test_rounds_follow_the_seed_only() -> None:
    assert rounds(4, 10, 3) == rounds(4, 10, 3)
    assert len({str(rounds(4, 10, seed)) for seed in range(20)}) > 15
    assert len(rounds(3, 20, 0)) == 20


def test_one_round_is_allowed_and_has_every_arm() -> None:
    assert [sorted(row) for row in rounds(3, 1, 0)] == [[0, 1, 2]]


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="arms = 0"):
        williams(0)
    with pytest.raises(InputError, match="rounds = 0"):
        rounds(3, 0, 1)
