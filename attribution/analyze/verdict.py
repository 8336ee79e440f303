"""The words a contrast ends in, and the rules that allow them.

In: an interval of a log-ratio, the equivalence margin, the null arm's floor.
Out: one of VERDICTS with its reason; `supported`, `refuted` or `undecided` for what was expected before measuring.
Misuse: `faster` is not "faster by at least the estimate", and `undecided` is not `same`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

Ratio = tuple[float, float, float]
"""Center, low and high of a log-ratio arm / base."""

VERDICTS = ("faster", "slower", "same", "undecided", "void")
AT_BEST = "at best undecided: "
"""How a contrast marks the reasons that keep it from a verdict."""
MARGIN = 0.01
"""Default equivalence margin: ratios from 1/1.01 to 1.01 count as the same."""


def decide(center: float, low: float, high: float, floor: float = math.nan, margin: float = MARGIN) -> tuple[str, str]:
    """Verdict and reason for a log-ratio arm/base `center` in [`low`, `high`].

    `same`: the interval lies inside the margin, also when it excludes 1. `faster` and `slower`:
    it excludes 1 and the estimate is above `floor`, the largest log-ratio that the null arm's
    interval allows (NaN: there is no null arm). Everything else is `undecided`.
    """
    if math.isnan(low) or math.isnan(high):
        return "undecided", "no interval: too few pairs, or constant readings of unknown tick"
    edge = math.log1p(margin)
    if -edge <= low and high <= edge:
        return "same", f"the interval is inside the margin of {margin:.3g}"
    if low <= 0 <= high:
        return "undecided", f"the interval holds 1 and reaches outside the margin of {margin:.3g}"
    if abs(center) <= floor:
        return (
            "undecided",
            f"below the noise floor: the null arm may differ by {math.expm1(floor):.2%}",
        )
    return ("faster" if center < 0 else "slower"), "the interval excludes 1"


def settle(
    paired: Ratio, by_modes: Sequence[Ratio], told: Sequence[str], floor: float = math.nan, margin: float = MARGIN
) -> tuple[str, str]:
    """Verdict and reason of `paired` rounds that would be the same in whichever mode each arm is, else `undecided`.

    `by_modes`: each combination of a mode of the base with one of the arm (none where both have one);
    `told`: the sentences that name those modes.
    """
    verdict, reason = decide(*paired, floor, margin)
    if verdict == "undecided" or not by_modes:
        return verdict, reason
    words = Counter(
        "without an interval" if math.isnan(ratio[1]) else decide(*ratio, floor, margin)[0] for ratio in by_modes
    )
    if set(words) == {verdict}:
        return verdict, f"{reason}, in each mode too"
    each = ", ".join(f"{count} {word}" for word, count in words.most_common())
    return (
        "undecided",
        f"{'; '.join(told)}: {verdict} over the rounds, but of {len(by_modes)} combinations of modes {each}",
    )


def judge(low: float, high: float, expected: tuple[float, float]) -> str:
    """Supported when [`low`, `high`] lies in `expected`, refuted when outside, undecided when both.

    NaN bounds are undecided.
    """
    if math.isnan(low) or math.isnan(high):
        return "undecided"
    if expected[0] <= low and high <= expected[1]:
        return "supported"
    if high < expected[0] or low > expected[1]:
        return "refuted"
    return "undecided"


def stated_for(expects: Mapping[str, Sequence[float]], shape: str) -> tuple[dict[str, Sequence[float]], str]:
    """What is expected of quantities, and which sizes of `shape` it was not written for, in words: '' when it was.

    `expects`: quantity -> interval, and size -> least and largest that the expectation speaks of; `shape` as `q=8,n=4096`.
    """
    sizes = dict(part.split("=", 1) for part in shape.split(",") if "=" in part)
    beyond = [
        f"{name} = {sizes[name]}, written for {low:.0f} to {high:.0f}"
        for name, (low, high) in expects.items()
        if name in sizes and not low <= float(sizes[name]) <= high
    ]
    return {name: bounds for name, bounds in expects.items() if name not in sizes}, "; ".join(beyond)
