"""What topk must answer, by numpy's sort of whole rows, and the check of every row against it.

Ties may be broken in any way, so a selection is compared by its sorted scores, bit for bit, never by its indices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attribution.declare import Check, Flags, Inputs, Shape

from .inputs import ordered_keys


def reference(inputs: Inputs, shape: Shape) -> list[NDArray[np.uint32]]:
    """The ordered keys inside each row's bounds, largest first."""
    rows = zip(inputs["scores"], inputs["start"], inputs["end"], strict=True)
    return [np.sort(ordered_keys(row[max(0, a) : max(0, a, b)]))[::-1] for row, a, b in rows]


def check(
    inputs: Inputs, output: Mapping[str, Any], reference: list[NDArray[np.uint32]], shape: Shape, flags: Flags
) -> list[Check]:
    """Every row: right count, inside the bounds, no column twice, -1 after, and bitwise the scores of the true top K."""
    k, out = int(flags["K"]), np.asarray(output["indices"])
    good = {name: np.ones(len(out), bool) for name in ("count", "inside_bounds", "unique", "top_k_scores")}
    for row, (columns, best) in enumerate(zip(out, reference, strict=True)):
        wanted = best[:k]
        chosen, rest = columns[: len(wanted)], columns[len(wanted) :]
        good["count"][row] = len(columns) == k and bool((rest == -1).all() and (chosen >= 0).all())
        inside = (chosen >= inputs["start"][row]) & (chosen < inputs["end"][row])
        good["inside_bounds"][row] = bool(inside.all())
        good["unique"][row] = len(np.unique(chosen)) == len(chosen)
        got = ordered_keys(inputs["scores"][row][chosen[inside]])
        good["top_k_scores"][row] = np.array_equal(np.sort(got)[::-1], wanted)
    return [Check.of_rows(name, rows) for name, rows in good.items()]
