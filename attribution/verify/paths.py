"""One value out of JSON, and how it is written: a closed language of paths and formats, nothing is ever executed.

A path is keys joined by dots; `[key=value;key=value]` keeps the rows of a list that match, and a key behind it wants one row.
Behind a list, `#` counts its rows, `max:KEY` and `min:KEY` take the largest and smallest.  The last key may be two or three:
`low,high` is written as an interval, `value,low,high` as a value with its interval.
A format is UNIT.DECIMALS (`ms.3`, `%.1`, `x.2`, `n.0`) or `text`.
Misuse: a key that ends in _ns is a time and is written as one; everything else has no unit of time.
"""

from __future__ import annotations

import re
from typing import Any

from attribution.errors import InputError

TIMES = {"ns": 1.0, "us": 1e-3, "ms": 1e-6, "s": 1e-9}
OTHERS = {
    "n": (1.0, ""), "x": (1.0, " x"), "%": (100.0, " %"), "TFLOPS": (1e-12, " TFLOPS"), "TB/s": (1e-12, " TB/s"),
    "GB/s": (1e-9, " GB/s"), "GHz": (1e-3, " GHz"), "MHz": (1.0, " MHz"), "W": (1.0, " W"), "GB": (1e-9, " GB"),
    "MB": (1e-6, " MB"), "M": (1e-6, " M"), "less%": (-100.0, " %"), "more%": (100.0, " %"),
}  # fmt: skip
"""Unit -> factor and ending.  `less%` is 100 (1 - value), `more%` is 100 (value - 1): changes of a ratio."""
_FORMAT = re.compile(
    rf"(?P<unit>{'|'.join(map(re.escape, sorted({*TIMES, *OTHERS}, key=len, reverse=True)))})\.(?P<digits>\d)"
)


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
            values = [v for row in self if isinstance(v := row.get(key), (int, float))]
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
        raise InputError(f"format {form!r}: allowed are text and UNIT.DECIMALS with {', '.join([*TIMES, *OTHERS])}")
    unit, digits = match["unit"], int(match["digits"])
    texts = [_number(value, key, unit, digits) for value, key in zip(values, keys, strict=True)]
    ending = f" {unit}" if unit in TIMES else OTHERS[unit][1]
    # 1 - value turns an interval round.
    ends = texts[:-3:-1] if unit == "less%" else texts[-2:]
    interval = f"[{', '.join(ends)}]" if len(texts) > 1 else ""
    if len(texts) == 2:
        return interval + ending
    return texts[0] + ending + (f" {interval}" if interval else "")


def _number(value: Any, key: str, unit: str, digits: int) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{key} is {value!r}, which is no number")
    if key.endswith("_ns") != (unit in TIMES):
        raise InputError(f"{key} as {unit}: keys that end in _ns are times, and only those; {', '.join(TIMES)}")
    if unit in TIMES:
        return f"{value * TIMES[unit]:.{digits}f}"
    factor = OTHERS[unit][0]
    moved = value - 1.0 if unit in ("less%", "more%") else value
    # Thousands are told apart from five digits on, as in the documents.
    return f"{moved * factor:{',' if abs(value) >= 1e4 and unit == 'n' else ''}.{digits}f}"
