"""Events of a Chrome trace, one after the other, with numbers kept as their text.

In: a byte stream of JSON, `{"traceEvents": [...], ...}` or a list.  Out: lists of dicts, one an event.
The text is read in windows, so memory is bounded by the window and by the largest single value, not by the file.
Integers come as int, all other numbers as str: no digit is lost.
Misuse: what stands beside the events is in `beside` only after the iterator is exhausted.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from attribution.errors import DataError

_WINDOW = 4 << 20
MAX_VALUE = 16 << 20
"""Longest single value (an event, or an entry beside the events), characters."""
_MAX_BESIDE = 10_000
_KEPT = frozenset({"schemaVersion", "cupti_version", "displayTimeUnit", "deviceProperties"})
_SPACE = re.compile(r"[ \t\n\r]*")
_GAP = re.compile(r"[ \t\n\r]*,[ \t\n\r]*\{")
_SPACE_BEFORE = re.compile(r"[ \t\n\r]*\}\Z")


class EventStream:
    """Iterate over the events; `beside` then holds the entries of the top-level object, those of use with their value."""

    def __init__(self, stream: BinaryIO, name: str, max_value: int = MAX_VALUE) -> None:
        self.beside: dict[str, Any] = {}
        self._stream, self._name, self._max = stream, name, max_value
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("strict")
        self._text, self._at, self._end, self._before, self._entries = "", 0, False, 0, 0
        self._scan = json.JSONDecoder(parse_float=str, parse_constant=lambda _: None).scan_once  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[list[Any]]:
        """Lists of events, in order; entries that are no objects are among them."""
        first = self._next_char()
        if first == "[":
            yield from self._events()
        elif first == "{":
            yield from self._object()
        else:
            raise self._damaged("expected { or [")
        self._skip_space()
        if self._at < len(self._text):
            raise self._damaged("text after the end of the JSON value")

    def _object(self) -> Iterator[list[Any]]:
        seen = False
        self._at += 1
        if self._next_char() == "}":
            self._at += 1
        else:
            while True:
                key = self._value()
                if not isinstance(key, str) or self._next_char() != ":":
                    raise self._damaged("expected a key and a colon")
                self._at += 1
                if key == "traceEvents" and self._next_char() == "[":
                    if seen:
                        raise self._damaged("a second traceEvents")
                    seen = True
                    yield from self._events()
                else:
                    self._keep(key, self._value())
                if self._separator("}"):
                    break
        if not seen:
            raise DataError(
                f"{self._name}: JSON without a list `traceEvents`: not a Kineto or Chrome trace; its keys are "
                f"{', '.join(list(self.beside)[:6]) or 'none'}"
            )

    def _events(self) -> Iterator[list[Any]]:
        self._at += 1
        if self._next_char() == "]":
            self._at += 1
            return
        last = False
        while not last:
            yield self._run()
            value = self._value()
            last = self._separator("]")
            yield [value]

    def _run(self) -> list[Any]:
        """Many whole events at once: those before the last thing in the window that looks like a gap between two.

        The gap's exact text is learned from one place; where it also occurs inside an event, the parser objects, and that
        window is read event by event.
        """
        text, at = self._text, self._at
        try:
            _, end = self._scan(text, at)
            follow = _GAP.match(text, end)
        except (StopIteration, ValueError, RecursionError):
            return []
        if follow is None or text[end - 1] != "}":
            return []
        gap = text[_SPACE_BEFORE.search(text, max(at, end - 200), end).start() : follow.end()]  # type: ignore[union-attr]
        cut = text.rfind(gap, at)
        if cut < end:
            return []
        stop = cut + gap.index("}") + 1
        try:
            values, parsed = self._scan("[" + text[at:stop] + "]", 0)
        except (StopIteration, ValueError, RecursionError):
            return []
        if parsed != stop - at + 2:
            return []
        self._at = cut + len(gap) - 1
        return values  # type: ignore[no-any-return]

    def _separator(self, close: str) -> bool:
        """Step over a comma (False) or the closing bracket (True)."""
        mark = self._next_char()
        if mark not in (",", close):
            raise self._damaged(f"expected , or {close}")
        self._at += 1
        if mark == ",":
            self._skip_space()
        return mark == close

    def _value(self) -> Any:
        """One value of any kind, at the current place; reads on until it is whole."""
        self._skip_space()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except RecursionError as error:
                raise self._damaged("nested deeper than a trace is") from error
            except (StopIteration, ValueError) as error:
                if self._end or len(self._text) - self._at > self._max:
                    raise self._too_long_or_damaged(error) from error
            else:
                if end < len(self._text) or self._end:  # a number at the window's end may go on
                    self._at = end
                    return value
            self._more()

    def _too_long_or_damaged(self, error: Exception) -> DataError:
        if not self._end:
            return self._damaged(f"one value is longer than {self._max:,} characters, or never ends")
        return self._damaged(f"truncated or damaged ({error or 'no value'})")

    def _next_char(self) -> str:
        self._skip_space()
        if self._at >= len(self._text):
            raise self._damaged("truncated: the JSON value does not end")
        return self._text[self._at]

    def _skip_space(self) -> None:
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text) or self._end:
                return
            self._more()

    def _more(self) -> None:
        """Drop what was used and read another window."""
        data = self._stream.read(max(_WINDOW, len(self._text) - self._at))  # doubles while one value does not fit
        self._end = not data
        try:
            fresh = self._decode.decode(data, self._end)
        except UnicodeDecodeError as error:
            raise self._damaged(f"not UTF-8 text ({error.reason})") from error
        self._before += self._at
        self._text, self._at = self._text[self._at :] + fresh, 0

    def _keep(self, key: str, value: Any) -> None:
        self._entries += 1
        if self._entries > _MAX_BESIDE:
            raise self._damaged(f"more than {_MAX_BESIDE:,} entries beside the events")
        self.beside[key] = value if key in _KEPT else None

    def _damaged(self, what: str) -> DataError:
        place = self._before + self._at
        return DataError(f"{self._name}: not a whole trace: {what}, near character {place:,}; copy it again")
