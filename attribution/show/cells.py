"""Cells of tables: numbers with their intervals as texts, the same on a terminal, in a page and in Markdown.

In: rows of the analysis, times in ns.  Out: strings; a dash for what is not known.
Misuse: a cell is for reading; computing goes on with the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attribution.tables import CONTROL

DASH = "-"


def interval_ms(row: Mapping[str, Any], name: str) -> str:
    """`1.234 [1.2, 1.3]` from NAME_ns, NAME_low_ns and NAME_high_ns; without an interval the value only."""
    value, low, high = (row[f"{name}{part}_ns"] / 1e6 for part in ("", "_low", "_high"))
    if value != value:
        return DASH
    bounds = [low, high] if low == low else []
    largest = max((abs(x) for x in (value, *bounds) if math.isfinite(x)), default=0.0)
    # Microseconds in three places, and two digits of what is shorter than ten of them.
    places = 3 if not 0 < largest < 0.01 else min(6, 1 - math.floor(math.log10(largest)))
    text = [f"{x:.{places}f}" for x in (value, *bounds)]
    return f"{text[0]} [{text[1]}, {text[2]}]" if bounds else text[0]


def account_ms(row: Mapping[str, Any]) -> str:
    """The same of a row of an account, from time_ns, low_ns and high_ns."""
    return interval_ms({"t_ns": row["time_ns"], "t_low_ns": row["low_ns"], "t_high_ns": row["high_ns"]}, "t")


def interval_share(value: float, low: float = math.nan, high: float = math.nan) -> str:
    """`12.3 % [12.0, 12.6]`, without an interval the value only; a dash for what is not known."""
    if value != value:
        return DASH
    return f"{100 * value:.2f} %" if low != low else f"{100 * value:.2f} % [{100 * low:.2f}, {100 * high:.2f}]"


def witness(row: Mapping[str, Any], which: str) -> str:
    """What the `first` or `second` witness of a row says: its name and its share; a dash where there is none."""
    value, low, high = (float(row[f"{which}_{part}"]) for part in ("value", "low", "high"))
    return f"{row[which]}: {interval_share(value, low, high)}" if row[which] else DASH


def interval_ratio(row: Mapping[str, Any]) -> str:
    """`0.6896 [0.6890, 0.6902]` from time_ratio and its bounds."""
    value, low, high = (row[f"time_ratio{part}"] for part in ("", "_low", "_high"))
    if value != value:
        return DASH
    return f"{value:.4f}" if low != low else f"{value:.4f} [{low:.4f}, {high:.4f}]"


DOUBT = {"undecided": "?"}
"""What stands behind a short cell whose verdict is none; a void one is the word."""


def short_share(row: Mapping[str, Any], name: str) -> str:
    """`12.3% [12.0, 12.6]` from NAME and its bounds, marked by the row's verdict."""
    value, low, high = (100 * row[f"{name}{part}"] for part in ("", "_low", "_high"))
    return _short(row, f"{value:.1f}%", f"{low:.1f}, {high:.1f}" if low == low else "")


def short_ratio(row: Mapping[str, Any]) -> str:
    """`0.690 [0.689, 0.690]` from time_ratio and its bounds, marked by the row's verdict."""
    value, low, high = (row[f"time_ratio{part}"] for part in ("", "_low", "_high"))
    return _short(row, f"{value:.3f}", f"{low:.3f}, {high:.3f}" if low == low else "")


def _short(row: Mapping[str, Any], value: str, bounds: str) -> str:
    if row["verdict"] == "void" or value.startswith("nan"):
        return "void" if row["verdict"] == "void" else DASH
    return value + (f" [{bounds}]" if bounds else "") + DOUBT.get(row["verdict"], "")


def point_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each row what sets its point of a sweep apart: shape, distribution, or both; '' where all are of one point."""
    told = [key for key in ("shape", "distribution") if len({str(row[key]) for row in rows}) > 1]
    return [" ".join(str(row[key]) for key in told) for row in rows]


def text(value: Any) -> str:
    """A cell: None and NaN are a dash, floats have four significant digits."""
    if value is None or value != value:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e6 else f"{value:.0f}"
    if isinstance(value, (list, tuple)):
        return ", ".join(text(v) for v in value)
    return harmless(str(value))


def harmless(words: str) -> str:
    """Text of a file for a terminal: what would move its cursor, colour it or turn its direction is shown as a code."""
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", words)
