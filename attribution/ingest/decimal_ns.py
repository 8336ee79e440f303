"""Decimal texts of microseconds as integer nanoseconds, exactly.

In: what a JSON file says, as int or as the number's text.  Out: int64 ns.
A double holds microseconds since the epoch only to 0.25 us, so a stamp never passes through one here.
Misuse: digits below a nanosecond are rounded to even and counted; say so to the reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa

_LIMIT_NS = 1 << 61
"""73 years on either side of the epoch; a begin and a duration below it have a sum that fits 64 bits."""
PLACES = {"us": 3, "ns": 0, "ms": 6, "s": 9}
"""Decimal places between a unit and the nanosecond."""


def to_ns(values: Sequence[int | str], unit: str = "us") -> tuple[np.ndarray, np.ndarray, int]:
    """`["100.7", 5]` us -> ([100700, 5000] ns, [True, True], 0 rounded).

    Returns int64 ns, whether each value is a usable time, and how many lost digits below 1 ns.
    """
    places = PLACES[unit]
    if not len(values):
        return np.empty(0, np.int64), np.empty(0, bool), 0
    try:
        exact = pa.array(list(map(str, values)), pa.string()).cast(pa.decimal128(38, places))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return _one_by_one(values, places)
    if exact.null_count:
        return _one_by_one(values, places)
    # A decimal128 with `places` decimals is its value in ns, as two 64-bit words, the low one first.
    words = np.frombuffer(exact.buffers()[1], np.int64)[: 2 * len(exact)].reshape(-1, 2)
    if (words[:, 1] != words[:, 0] >> 63).any() or (np.abs(words[:, 0]) >= _LIMIT_NS).any():
        return _one_by_one(values, places)
    return words[:, 0].copy(), np.ones(len(exact), bool), 0


def _one_by_one(values: Sequence[int | str], places: int) -> tuple[np.ndarray, np.ndarray, int]:
    """The same, for a list in which some value is no time or has digits below 1 ns."""
    out, usable, rounded = np.zeros(len(values), np.int64), np.zeros(len(values), bool), 0
    for place, value in enumerate(values):
        if isinstance(value, (bool, float)) or not isinstance(value, (int, str)) or len(str(value)) > 60:
            continue
        try:
            scaled = Decimal(value).scaleb(places)
            if not scaled.is_finite() or abs(scaled) >= _LIMIT_NS:
                continue
            whole = round(scaled)
        except (InvalidOperation, ValueError):
            continue
        rounded += whole != scaled
        out[place], usable[place] = whole, True
    return out, usable, rounded
