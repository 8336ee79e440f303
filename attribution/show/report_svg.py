"""Figures of a report as inline SVG: places along the width are percentages, so text keeps its size on a phone.

In: numbers of the analysis.  Out: SVG texts whose colours come from the page (classes of report.css), so that they suit
light and dark; every figure has a title, a description, and a tooltip on each mark.
Misuse: all texts pass `escape`; a name from a file is never put into markup by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
APART = 11.0
"""Percent of the width that two labels of an axis keep from each other, so that they do not touch on a phone."""


def tag(name: str, *content: str, **attributes: str | float) -> str:
    """An element; `_` in attribute names is `-`, `class_` is `class`.  Content is markup: escape texts before."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"' for key, value in attributes.items()
    )
    return f"<{name}{given}>{''.join(content)}</{name}>"


def _short(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def percent(value: float) -> str:
    return f"{_short(value)}%"


def words(text: str, most: int) -> str:
    """The text, cut with an ellipsis where it is longer than `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def label(text: str, x: str, y: float, anchor: str = "start", kind: str = "label") -> str:
    return tag("text", escape(text), x=x, y=y, text_anchor=anchor, class_=kind)


def rect(x: float, y: float, width: float, height: float, kind: str, tip: str = "") -> str:
    """`x` and `width` in percent, `y` and `height` in pixels."""
    tips = (tag("title", escape(tip)),) if tip else ()
    return tag("rect", *tips, x=percent(x), y=y, width=percent(max(width, 0.0)), height=height, class_=kind)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return tag("line", x1=percent(x1), y1=y1, x2=percent(x2), y2=y2, class_=kind)


def picture(name: str, title: str, alt: str, height: float, marks: Iterable[str]) -> str:
    """A whole figure: `name` makes the ids of its title and description unique in the page."""
    return tag(
        "svg",
        tag("title", escape(title), id=f"{name}-title"),
        tag("desc", escape(alt), id=f"{name}-desc"),
        *marks,
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        width="100%",
        height=height,
        class_="figure",
    )


@dataclass(frozen=True)
class Scale:
    """Numbers to percent of the width; logarithmic for ratios, so that half and double are equally far from 1."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high, here = (math.log(v) if self.log else v for v in (self.low, self.high, max(value, 1e-9)))
        return min(100.0, max(0.0, 100 * (here - low) / (high - low))) if high > low else 50.0


def ratio_scale(values: Iterable[float]) -> Scale:
    """A scale around 1 and all `values` that are known, with a margin."""
    known = [v for v in values if math.isfinite(v) and v > 0] + [0.95, 1.05]
    room = (max(known) / min(known)) ** 0.06
    return Scale(min(known) / room, max(known) * room, log=True)


def ratio_ticks(scale: Scale) -> list[float]:
    """1, and of TICKS those inside the scale that keep APART from what is there already."""
    chosen = [1.0]
    for tick in sorted(TICKS, key=lambda t: (t not in (0.5, 2.0), abs(math.log(t)))):
        place = scale.at(tick)
        if scale.low < tick < scale.high and all(abs(place - scale.at(t)) >= APART for t in chosen):
            chosen.append(tick)
    return sorted(chosen)


def ratio_axis(scale: Scale) -> str:
    """The axis of a list of intervals."""
    marks = [label(f"{t:g}×", percent(scale.at(t)), 12, "middle", "tick") for t in ratio_ticks(scale)]
    return tag("svg", *marks, width="100%", height=16.0, class_="axis", aria_hidden="true")


def interval(scale: Scale, bounds: tuple[float, float, float], expected: tuple[float, float], tip: str) -> str:
    """One interval of a ratio (low, value, high) over its expectation (NaN: none), with the line at 1."""
    marks = [line(scale.at(t), 0, scale.at(t), 26, "one" if t == 1.0 else "grid") for t in ratio_ticks(scale)]
    if all(math.isfinite(e) for e in expected):
        left, right = (scale.at(e) for e in expected)
        marks.append(
            rect(left, 5, max(right - left, 0.4), 16, "expected", f"expected {expected[0]:g} to {expected[1]:g}")
        )
    low, value, high = bounds
    if math.isfinite(value):
        if math.isfinite(low) and math.isfinite(high):
            marks.append(line(scale.at(low), 13, scale.at(high), 13, "interval"))
        marks.append(
            tag("circle", tag("title", escape(tip)), cx=percent(scale.at(value)), cy=13.0, r=4.5, class_="point")
        )
    return tag("svg", *marks, role="img", aria_label=tip, width="100%", height=26.0, class_="interval-plot")


@dataclass(frozen=True)
class Bar:
    """One bar of a waterfall: where it begins and ends in ms, its interval's ends, and whether it is firm."""

    name: str
    kind: str
    begin: float
    end: float
    low: float
    high: float
    value: str
    tip: str
    firm: bool = True


def waterfall(name: str, title: str, alt: str, bars: Sequence[Bar]) -> str:
    """Bars below each other, each with its name and value above it; from 0 ms at the left edge."""
    ends = [v for b in bars for v in (b.begin, b.end, b.high) if math.isfinite(v)]
    scale = Scale(min([0.0, *ends]), max([*ends, 1e-9]) * 1.02)
    marks = []
    for place, bar in enumerate(bars):
        y = 40.0 * place
        marks += [
            label(words(bar.name, 30), "0", y + 13),
            label(bar.value, "100%", y + 13, "end", "value"),
        ]
        left, right = sorted((scale.at(bar.begin), scale.at(bar.end)))
        marks.append(rect(0, y + 19, 100, 14, "track"))
        kind = f"bar bar-{bar.kind}{'' if bar.firm else ' doubtful'}"
        marks.append(rect(left, y + 19, max(right - left, 0.3), 14, kind, bar.tip))
        if math.isfinite(bar.low) and math.isfinite(bar.high):
            marks.append(line(scale.at(bar.low), y + 26, scale.at(bar.high), y + 26, "whisker"))
    return picture(name, title, alt, 40.0 * len(bars), marks)


def per_sm(name: str, title: str, alt: str, sms: Sequence[tuple[int, int, float]]) -> str:
    """Bars of rows on every SM (sm, rows, finish in ms), and its finish as a point on a scale of its own from 0."""
    most_rows = max([1, *(rows for _, rows, _ in sms)])
    last = max([1e-9, *(finish for _, _, finish in sms)])
    width, base, room = 100 / max(1, len(sms)), 150.0, 120.0
    marks = [line(0, base, 100, base, "axis-line")]
    for place, (sm, rows, finish) in enumerate(sms):
        tip = f"SM {sm}: {rows} rows, finish {finish:.3f} ms"
        height = room * rows / most_rows
        marks.append(rect(place * width + 0.08 * width, base - height, 0.84 * width, height, "bar bar-rows", tip))
        y = base - 1.12 * room * finish / last
        marks.append(tag("circle", cx=percent((place + 0.5) * width), cy=y, r=1.9, class_="point-finish"))
    marks += [
        label(f"SM 0 to {len(sms) - 1}", "0", base + 17, kind="tick"),
        label(f"most rows {most_rows}, last finish {last:.3f} ms", "100%", base + 17, "end", "tick"),
    ]
    return picture(name, title, alt, base + 24, marks)


@dataclass(frozen=True)
class Stretch:
    """A span of a lane in ms, work or wait."""

    begin: float
    end: float
    wait: bool
    tip: str


def timeline(name: str, title: str, alt: str, lanes: Sequence[tuple[str, int, Sequence[Stretch]]]) -> str:
    """One lane below the other (name, colour number, stretches); work is filled, waits are outlines."""
    ends = [s.end for _, _, stretches in lanes for s in stretches]
    scale = Scale(0.0, max([1e-9, *ends]))
    marks, y = [], 0.0
    for title_of, colour, stretches in lanes:
        marks.append(label(title_of, "0", y + 12))
        for s in sorted(stretches, key=lambda s: not s.wait):
            kind = f"role role-{colour % 6} {'wait' if s.wait else 'work'}"
            left = scale.at(s.begin)
            marks.append(
                rect(
                    left,
                    y + (19 if s.wait else 17),
                    max(scale.at(s.end) - left, 0.05),
                    9 if s.wait else 13,
                    kind,
                    s.tip,
                )
            )
        y += 38
    marks += [label("0 ms", "0", y + 10, kind="tick"), label(f"{scale.high:.3f} ms", "100%", y + 10, "end", "tick")]
    return picture(name, title, alt, y + 16, marks)
