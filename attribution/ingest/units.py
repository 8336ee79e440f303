"""Numbers and units as Nsight Compute prints them, scaled exactly to base units.

In: the text of a number and of a unit.  Out: Decimal values in ns, byte, hz, or counts.
Arithmetic is decimal, so `1.2345 msecond` and `1234500 nsecond` are the same number.
Misuse: a text is never guessed.  `1.234,5` needs `decimal=","`; a unit that is not in the list is
refused, because an unknown unit may hide a factor of a thousand.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from attribution.errors import DataError, InputError

ABSENT = frozenset({"", "n/a", "N/A", "(!) n/a", "no data", "-"})
"""Cells that say: not measured.  None of them is a zero."""

_NOT_A_NUMBER = frozenset({"nan", "-nan", "NaN", "nan(ind)", "-nan(ind)"})
_NUMBER = {
    mark: re.compile(
        rf"[+-]?(?:\d{{1,3}}(?:{re.escape(group)}\d{{3}})+|\d+)(?:{re.escape(mark)}\d+)?"
        r"(?:[eE][+-]?\d{1,3})?",
        re.ASCII,
    )
    for mark, group in ((".", ","), (",", "."))
}
_TIME = {
    "s": 9, "second": 9, "sec": 9, "ms": 6, "msecond": 6, "msec": 6,
    "us": 3, "usecond": 3, "usec": 3, "ns": 0, "nsecond": 0, "nsec": 0,
}  # fmt: skip
_COUNTED = frozenset(
    [
        "block",
        "branch",
        "branches",
        "cluster",
        "cycle",
        "event",
        "gpc",
        "instance",
        "inst",
        "item",
        "op",
        "ops",
        "page",
        "pass",
        "register",
        "request",
        "sample",
        "sector",
        "sectors",
        "slot",
        "sm",
        "sms",
        "thread",
        "tpc",
        "tag",
        "tags",
        "transaction",
        "warp",
        "warps",
        "wavefront",
        "wavefronts",
        "cta",
        "ctas",
        "access",
        "accesses",
        "bank",
        "bit",
        "channel",
        "dimm",
        "entry",
        "group",
        "job",
        "kernel",
        "launch",
        "line",
        "packet",
        "port",
        "quad",
        "query",
        "queue",
        "texel",
        "tile",
        "vertex",
        "watt",
        "workload",
    ]
)
"""Countable things, compared in lower case; a trailing s of the file's spelling is kept."""
_PREFIX = {"": 0, "K": 3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_BINARY = {"KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}


def parse_number(text: str, *, decimal: str = ".") -> Decimal:
    """The exact value of one printed number; `decimal` is the file's decimal mark.

    Raises DataError for anything else, `1.234,5` with `decimal="."` included.
    """
    if decimal not in _NUMBER:
        raise InputError(f"decimal mark {decimal!r} is not known; allowed are '.' and ','")
    group = "," if decimal == "." else "."
    text = text.strip()
    if not _NUMBER[decimal].fullmatch(text):
        other = _NUMBER[group].fullmatch(text) is not None
        hint = f"; it reads as a number with decimal={group!r}: state that" if other else ""
        raise DataError(
            f"{text[:60]!r} is not a number with decimal mark {decimal!r} and thousands in threes by {group!r}{hint}"
        )
    return Decimal(text.replace(group, "").replace(decimal, "."))


@lru_cache(maxsize=4096)
def base_unit(unit: str) -> tuple[str, Decimal]:
    """(base unit, factor): `usecond` -> (ns, 1000), `Mbyte/s` -> (byte/s, 10^6).

    Raises DataError for a unit that is not in the list.
    """
    stated = unit.strip()
    if stated in ("", "%"):
        return stated, Decimal(1)
    top, *below = stated.split("/")
    if len(below) > 1 or (not top and below):
        raise _unknown(unit)
    name, factor = _atom(top, unit)
    if not below:
        return name, factor
    if below[0] in _TIME:  # a rate: per second, whatever it was stated per
        per_second = factor * Decimal(10) ** (9 - _TIME[below[0]])
        return ("hz" if name == "cycle" else f"{name}/s"), per_second
    bottom, divisor = _atom(below[0], unit)
    return f"{name}/{bottom}", factor / divisor


def to_base(text: str, unit: str, *, decimal: str = ".") -> tuple[Decimal, str]:
    """`("1,234.5", "usecond")` -> (1234500, "ns").  Raises DataError for number or unit."""
    name, factor = base_unit(unit)
    return parse_number(text, decimal=decimal) * factor, name


def is_nan(text: str) -> bool:
    """Whether the cell says that a value was computed and is not a number."""
    return text.strip() in _NOT_A_NUMBER


def _atom(name: str, whole: str) -> tuple[str, Decimal]:
    if name in _TIME:
        return "ns", Decimal(10) ** _TIME[name]
    if name in _BINARY:
        return "byte", Decimal(2) ** _BINARY[name]
    for prefix, power in _PREFIX.items():
        rest = name.removeprefix(prefix)
        if not name.startswith(prefix) or not rest:
            continue
        low = rest.lower()
        if low in ("hz", "byte", "bytes", "b"):
            if low == "b" and rest != "B":
                continue
            return ("hz" if low == "hz" else "byte"), Decimal(10) ** power
        if low in _COUNTED:
            return (rest if power else name), Decimal(10) ** power
    if name in ("%", "1"):
        return name, Decimal(1)
    raise _unknown(whole)


def _unknown(unit: str) -> DataError:
    return DataError(
        f"unit {unit[:40]!r} is not known; allowed are times (ns, us, ms, s, nsecond ... second), "
        "byte with K, M, G, T, hz, %, counts such as inst, sector, warp, cycle, and quotients of these"
    )
