"""One value out of JSON, and how it is written: a closed language of paths and formats, nothing is ever executed.

A path is keys joined by dots; `[key=value;key=value]` keeps the rows of a list that match, and a key behind it wants one row.
Behind a list, `#` counts its rows, `max:KEY` and `min:KEY` take the largest and smallest.  The last key may be two or three:
`low,high` is written as an interval, `value,low,high` as a value with its interval.
A format is UNIT.DECIMALS (`ms.3`, `%.1`, `x.2`, `n.0`) or `text`.
A row whose `verdict` is `void` gives away no single number.
Misuse: a key's name says what it is (`_ns`, `_flop_per_s`, `_mhz`, ...) and is written in units of that and no others.
"""

from __future__ import annotations

import re
from typing import Any

from attribution.errors import InputError

DIMENSIONS = {
    r"_ns": ("time", 1e-9), r"_us": ("time", 1e-6), r"_ms": ("time", 1e-3), r"(?<!_per)_s": ("time", 1.0),
    r"flop_per_s(_low|_high)?": ("flops", 1.0), r"tflops(_low|_high)?": ("flops", 1e12),
    r"bytes?_per_s(_low|_high)?": ("rate", 1.0), r"mhz": ("frequency", 1e6), r"_w": ("power", 1.0), r"bytes?": ("size", 1.0),
}  # fmt: skip
"""How a key ends -> what it is, and its unit in seconds, FLOP/s, byte/s, Hz, W or bytes; all others are plain numbers."""
UNITS = {
    "ns": ("time", 1e9), "us": ("time", 1e6), "ms": ("time", 1e3), "s": ("time", 1.0), "TFLOPS": ("flops", 1e-12),
    "TB/s": ("rate", 1e-12), "GB/s": ("rate", 1e-9), "GHz": ("frequency", 1e-9), "MHz": ("frequency", 1e-6),
    "W": ("power", 1.0), "GB": ("size", 1e-9), "MB": ("size", 1e-6), "n": ("", 1.0), "M": ("", 1e-6), "x": ("", 1.0),
    "%": ("", 100.0), "less%": ("", -100.0), "more%": ("", 100.0),
}  # fmt: skip
"""Unit -> what it measures and its factor.  `less%` is 100 (1 - value), `more%` is 100 (value - 1): changes of a ratio."""
ENDINGS = {"n": "", "M": " M", "less%": " %", "more%": " %"}
"""What stands behind the digits, where that is not the unit itself."""
_FORMAT = re.compile(rf"(?P<unit>{'|'.join(map(re.escape, sorted(UNITS, key=len, reverse=True)))})\.(?P<digits>\d)")


def written(value: Any, path: str, form: str) -> str:
    """The text of the value at `path` of a JSON value.  Raises InputError, saying what is there instead."""
    *steps, last = re.findall(r"\[[^\]]*\]|[^.\[\]]+", path) or [""]
    for step in steps:
        value = _down(value, step, path)
    keys = [last] if last.startswith("[") else last.split(",")
    if len(keys) > 3:
        raise InputError(f"path {path}: ends in {len(keys)} keys; allowed are one, low,high and value,low,high")
    return _joined([_down(value, key, path) for key in keys], keys, form)


def _down(value: Any, step: str, path: str) -> Any:
    """What one step of a path leads to."""
    if isinstance(value, list):
        rows = _Rows(row for row in value if isinstance(row, dict))
        return rows.matching(step) if step.startswith("[") else rows.take(step, path)
    if not isinstance(value, dict):
        raise InputError(f"path {path}: {step} is asked of {type(value).__name__}, which has no parts")
    if step not in value:
        raise InputError(f"path {path}: there is no {step!r}; there are: {', '.join(map(str, value))}")
    if value.get("verdict") == "void" and isinstance(value[step], (int, float)):
        raise InputError(
            f"path {path}: the row is void, and a reader of {step} alone would not see it: show the command's whole output"
        )
    return value[step]


class _Rows(list[dict[str, Any]]):
    """Rows of a table."""

    def matching(self, step: str) -> _Rows:
        """Those that have these values."""
        wanted = dict(part.partition("=")[::2] for part in step[1:-1].split(";") if part)
        return _Rows(row for row in self if all(_same(row.get(key), text) for key, text in wanted.items()))

    def take(self, step: str, path: str) -> Any:
        """What a step gets from the rows: their number, an extreme of a column, or the key of the only one."""
        if step == "#":
            return len(self)
        word, _, key = step.rpartition(":")
        if word in ("max", "min"):
            values = [v for row in self if isinstance(v := _down(row, key, path), (int, float))]
            if not values or len(values) < len(self):
                raise InputError(f"path {path}: {len(self)} rows, and not all have a number {key}")
            return max(values) if word == "max" else min(values)
        if len(self) != 1:
            raise InputError(f"path {path}: {len(self)} rows match; [key=value] in front of {step!r} must leave one")
        return _down(self[0], step, path)


def _same(value: Any, text: str) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value) == text
    try:
        return value == float(text)
    except ValueError:
        return False


def _joined(values: list[Any], keys: list[str], form: str) -> str:
    if form == "text":
        return ", ".join(str(v) for v in values)
    match = _FORMAT.fullmatch(form)
    if match is None:
        raise InputError(f"format {form!r}: allowed are text and UNIT.DECIMALS with {', '.join(UNITS)}")
    unit, digits = match["unit"], int(match["digits"])
    texts = [_number(value, key, unit, digits) for value, key in zip(values, keys, strict=True)]
    ending = ENDINGS.get(unit, f" {unit}")
    # 1 - value turns an interval round.
    ends = texts[:-3:-1] if unit == "less%" else texts[-2:]
    interval = f"[{', '.join(ends)}]" if len(texts) > 1 else ""
    if len(texts) == 2:
        return interval + ending
    return texts[0] + ending + (f" {interval}" if interval else "")


def _number(value: Any, key: str, unit: str, digits: int) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{key} is {value!r}, which is no number")
    kind, size = next((d for end, d in DIMENSIONS.items() if re.search(f"{end}$", key)), ("", 1.0))
    measures, factor = UNITS[unit]
    if kind != measures:
        known = ", ".join(name for name, (of, _) in UNITS.items() if of == kind)
        raise InputError(f"{key} cannot be written in {unit}; allowed are {known}")
    moved = value - 1.0 if unit in ("less%", "more%") else value * size
    # Thousands are told apart from five digits on, as in the documents.
    return f"{moved * factor:{',' if abs(value) >= 1e4 and unit == 'n' else ''}.{digits}f}"
