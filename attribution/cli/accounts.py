"""Cells that the verbs about accounts share: times and shares with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def interval_ms(row: Mapping[str, Any], name: str) -> str:
    """`1.234 [1.2, 1.3]` from NAME_ns, NAME_low_ns and NAME_high_ns; without an interval the value only."""
    value, low, high = (row[f"{name}{part}_ns"] / 1e6 for part in ("", "_low", "_high"))
    return f"{value:.3f}" if low != low else f"{value:.3f} [{low:.3f}, {high:.3f}]"


def interval_share(value: float, low: float, high: float) -> str:
    """`12.3 % [12.0, 12.6]`; a dash for what is not known."""
    if value != value:
        return "-"
    return f"{100 * value:.2f} %" if low != low else f"{100 * value:.2f} % [{100 * low:.2f}, {100 * high:.2f}]"
