"""In which order the arms of a round run: no place and no predecessor may favour one of them.

In: a number of arms, a number of rounds, a seed.  Out: rounds as lists of arm numbers from 0.
Rotating the arms gives every arm every position, but always the same predecessor: whatever one arm
leaves behind (clock, heat, cache) then lands on the same other arm in every round, and no number of
rounds averages it away.
Misuse: balance holds for whole designs only; `rounds` makes whole ones first, so choose `count` as
a multiple of `len(williams(arms))` where that is affordable, and see `imbalance` where it is not.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from attribution.errors import InputError


def williams(arms: int) -> list[list[int]]:
    """The Williams design: `arms` rounds for an even number of arms, twice as many for an odd one.

    Every arm is at every position equally often, and follows every other arm equally often (once
    for an even number, twice for an odd one).  Source: E. J. Williams, Experimental designs
    balanced for the estimation of residual effects of treatments, Australian Journal of Scientific
    Research A 2 (1949).  Raises InputError.
    """
    if arms < 1:
        raise InputError(f"arms = {arms}: allowed is an integer >= 1")
    # Zigzag 0, 1, n-1, 2, n-2, ...: neighbouring differences are all different modulo n, so that
    # its n shifts hold each ordered pair once (n even).  For n odd differences d and -d fall
    # together in one half of the cases: the mirrored square supplies the other half.
    zigzag = [(i + 1) // 2 if i % 2 else (arms - i // 2) % arms for i in range(arms)]
    square = [[(arm + shift) % arms for arm in zigzag] for shift in range(arms)]
    return square if arms % 2 == 0 or arms == 1 else square + [row[::-1] for row in square]


def rounds(arms: int, count: int, seed: int) -> list[list[int]]:
    """`count` rounds: whole Williams designs first, each relabelled and shuffled by `seed`.

    Balanced whenever `count` is a multiple of `len(williams(arms))`; positions alone are balanced
    whenever it is a multiple of `arms`.  The same arguments give the same rounds.  Raises
    InputError.
    """
    if count < 1:
        raise InputError(f"rounds = {count}: allowed is an integer >= 1")
    draw = random.Random(seed)
    design = williams(arms)
    out: list[list[int]] = []
    while len(out) < count:
        label = draw.sample(range(arms), arms)
        for start in range(0, len(design), arms):
            # Squares stay whole, so that a design that is cut short keeps its positions balanced.
            square = design[start : start + arms]
            draw.shuffle(square)
            out.extend([label[arm] for arm in row] for row in square)
    return out[:count]


def carryover_counts(orders: Sequence[Sequence[int]]) -> list[list[int]]:
    """`counts[a][b]`: in how many rounds arm `b` ran directly after arm `a`."""
    arms = 1 + max(max(row) for row in orders)
    counts = [[0] * arms for _ in range(arms)]
    for row in orders:
        for before, after in itertools.pairwise(row):
            counts[before][after] += 1
    return counts


def position_counts(orders: Sequence[Sequence[int]]) -> list[list[int]]:
    """`counts[a][p]`: in how many rounds arm `a` ran at position `p`."""
    arms = 1 + max(max(row) for row in orders)
    counts = [[0] * max(len(row) for row in orders) for _ in range(arms)]
    for row in orders:
        for position, arm in enumerate(row):
            counts[arm][position] += 1
    return counts


def imbalance(orders: Sequence[Sequence[int]]) -> str:
    """What is unbalanced about these rounds, in a few words; '' when nothing is."""
    found = []
    places = [n for row in position_counts(orders) for n in row]
    if min(places) != max(places):
        found.append(f"an arm is at one position {min(places)} to {max(places)} times")
    after = carryover_counts(orders)
    pairs = [n for a, row in enumerate(after) for b, n in enumerate(row) if a != b]
    if pairs and min(pairs) != max(pairs):
        found.append(f"an arm follows another {min(pairs)} to {max(pairs)} times")
    return "; ".join(found)
