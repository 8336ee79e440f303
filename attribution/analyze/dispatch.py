"""Which selector a serving engine should call: a rule by real width, and what random inputs would have made of it.

In: `cells` of a sweep (see selectors.py), the conditions of each selector.  Out: `Rule`, sentences.
An engine does not know its distribution, so a width's choice is the selector whose worst case over the distributions is best.
Real width: the most columns between start and end of any row, not the columns that were allocated.
Misuse: between and beyond the widths that were measured the rule knows nothing, and says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from attribution.analyze.selectors import POINT, oriented, pairs, relative
from attribution.errors import DataError


@dataclass(frozen=True)
class Span:
    """Widths from `low` to `high` columns that one selector serves; `worst` is its time over the best one's, at most."""

    low: int
    high: int
    selector: str
    worst: float
    worst_on: str

    def __str__(self) -> str:
        width = f"{self.low}" if self.low == self.high else f"{self.low} to {self.high}"
        worst = f"at most {self.worst:.2f} x the best measured, on {self.worst_on}"
        return f"{width} columns: {self.selector} ({worst if self.worst > 1 else 'nothing measured took less time'})"


@dataclass(frozen=True)
class Rule:
    """Spans of neighbouring widths, what the chosen selectors ask of their inputs, and who serves what does not comply."""

    spans: tuple[Span, ...]
    distributions: tuple[str, ...]
    needs: Mapping[str, Sequence[str]]
    fallback: tuple[Span, ...]

    def lines(self) -> list[str]:
        """The rule in words."""
        out = [f"By real width, over {', '.join(self.distributions)}:"]
        out += [f"  {span}" for span in self.spans]
        out += [f"  between {a.high} and {b.low} columns: not measured" for a, b in itertools.pairwise(self.spans)]
        for name, conditions in self.needs.items():
            out += [f"  {name} is eligible only when: {condition}" for condition in conditions]
        if any(self.needs.values()):
            out += [f"  else: {span}" for span in self.fallback] or ["  else: nothing that was measured is eligible"]
        return out


def rule(found: pd.DataFrame, distributions: Sequence[str], needs: Mapping[str, Sequence[str]]) -> Rule:
    """The rule over these distributions; `needs`: selector -> conditions.  Raises DataError when nothing is left to choose from."""
    times = relative(found)
    mine = times[times["distribution"].isin(distributions)]
    if mine.empty:
        raise DataError(
            f"no selector was measured on {', '.join(distributions)}; there are: {', '.join(times['distribution'].unique())}"
        )
    spans = _spans(mine)
    chosen = {span.selector: tuple(needs.get(span.selector, ())) for span in spans}
    free = mine[[not needs.get(name) for name in mine["selector"]]]
    used = tuple(name for name in distributions if name in set(mine["distribution"]))
    return Rule(spans, used, {n: c for n, c in chosen.items() if c}, _spans(free) if len(free) else ())


def _spans(times: pd.DataFrame) -> tuple[Span, ...]:
    """The choice at each width; neighbours with one choice become one span."""
    out: list[Span] = []
    for width in sorted(times["columns"].unique()):
        here = times[times["columns"] == width]
        # Against the best of those that may be chosen from, at each point.
        here = here.assign(over=here["ratio"] / here.groupby(POINT)["ratio"].transform("min"))
        everywhere = here.groupby("selector")["over"].transform("size") == len(here[POINT].drop_duplicates())
        worst = here[everywhere].sort_values("over", ascending=False).drop_duplicates("selector")
        if worst.empty:
            continue
        best = worst.sort_values("over", kind="stable").to_dict("records")[0]
        span = Span(int(width), int(width), best["selector"], float(best["over"]), best["distribution"])
        if out and out[-1].selector == span.selector:
            before = out.pop()
            last = max(before, span, key=lambda s: s.worst)
            span = Span(before.low, span.high, span.selector, last.worst, last.worst_on)
        out.append(span)
    return tuple(out)


def claims(found: pd.DataFrame, first: str, second: str, random: Sequence[str]) -> list[str]:
    """What random inputs would have claimed of `second` against `first`, and what each other distribution says."""
    mine = oriented(found, first, second)
    mine = mine[mine["verdict"] != "void"]
    speed = {str(name): 1 / part["ratio"] for name, part in mine.groupby("distribution", sort=False)}
    claimed = {name: speed[name] for name in random if name in speed}
    if not claimed:
        raise DataError(
            f"{first} and {second} have no right output on {', '.join(random)}: nothing would have been claimed"
        )
    words = ", ".join(f"{_range(values)} as fast as {first} on {name}" for name, values in claimed.items())
    others = [f"{name} {_range(values)}" for name, values in speed.items() if name not in claimed]
    out = [
        f"Random inputs would have claimed that {second} is {words}."
        + (f" Others say: {'; '.join(others)}." if others else "")
    ]
    return out + _turned(mine, first, second, list(claimed))


def _range(values: pd.Series) -> str:
    low, high = f"{values.min():.2f}", f"{values.max():.2f}"
    return f"{low} x" if low == high else f"{low} to {high} x"


def _turned(mine: pd.DataFrame, first: str, second: str, random: Sequence[str]) -> list[str]:
    """Shapes at which another distribution names another winner than a random one did."""
    decided = mine[mine["verdict"].isin(["faster", "slower"])]
    plain, other = (decided[decided["distribution"].isin(random) == side] for side in (True, False))
    both = plain.merge(other, on=POINT[1:], suffixes=("_random", ""))
    turned = both[both["verdict_random"] != both["verdict"]]
    if both.empty:
        return []
    if turned.empty:
        return [f"Who is faster is the same in all {len(both)} comparisons at one shape."]
    widths = ", ".join(map(str, sorted(turned["columns"].unique())))
    names = ", ".join(dict.fromkeys(turned["distribution"]))
    return [
        f"Who is faster turns round in {len(turned)} of {len(both)} comparisons at one shape: at {widths} columns, on {names}."
    ]


def most_sensitive(found: pd.DataFrame) -> tuple[str, str]:
    """The pair whose ratio differs most between distributions at one shape."""
    spread = {}
    for first, second in pairs(found):
        ratios = oriented(found, first, second).dropna(subset=["ratio"]).groupby(POINT[1:])["ratio"]
        spread[first, second] = float((ratios.max() / ratios.min()).max()) if len(ratios) else 0.0
    return max(spread, key=lambda pair: spread[pair])
