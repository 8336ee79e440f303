"""Kineto and other Chrome traces as `kernels`, `copies`, `ranges`, `range_times` and `slices`, in integer nanoseconds.

In: .json or .json.gz of torch.profiler, or of any tool that writes complete events or begin/end pairs.
Out: `Ingested`.  `slices` has every interval of the file; kernels and ranges are those that the profiler marked.
Misuse: the format says microseconds and has no field for another unit (`displayTimeUnit` is about display); a tool that
writes nanoseconds must be named: `time_unit="ns"`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attribution import collector
from attribution.errors import DataError, InputError
from attribution.ingest import bounded, frames
from attribution.ingest.chrome_events import CALLS, COPIES, Events
from attribution.ingest.decimal_ns import PLACES, to_ns
from attribution.ingest.device_events import copy_table, kernel_table, range_table
from attribution.ingest.ingested import Ingested, Note, ingested
from attribution.ingest.json_stream import EventStream
from attribution.ingest.ranges import range_times


def load(path: Path, *, time_unit: str = "us", max_bytes: int = bounded.MAX_BYTES) -> Ingested:
    """Read one trace.  `time_unit` is the unit of ts and dur: us (the format's), ns, ms or s.

    Raises DataError for a file that is not a whole trace, or is larger than `max_bytes` after decompression.
    """
    path = Path(path)
    if time_unit not in PLACES:
        raise InputError(f"time_unit {time_unit!r} is not known; allowed are {', '.join(PLACES)}")
    events = Events()
    # Events are trees: nothing of them needs the collector, which would visit each one several times.
    with bounded.opened(path, max_bytes) as stream, collector.paused():
        source = EventStream(stream, path.name)
        take = events.take
        for batch in source:
            take(batch)
    notes = _counted(events)
    slices, rows, begin, duration = _slices(path.name, events, time_unit, notes)
    picked = _Picked(path.name, events, rows, begin, duration)
    kernels = picked.kernels(notes)
    ranges = picked.ranges()
    if not len(kernels):
        notes.append(_no_kernels(events))
    if source.beside.get("displayTimeUnit") == "ns" and time_unit == "us" and not len(kernels):
        notes.append(Note("time", 1, "displayTimeUnit is ns: ts and dur were still read as microseconds, as the format "
                          "says; if the tool wrote nanoseconds, state time_unit='ns'"))  # fmt: skip
    tables = {"kernels": kernels, "copies": picked.copies(), "ranges": ranges}
    tables |= {"range_times": range_times(kernels, ranges), "slices": slices}
    return ingested(path, "chrome-json", tables, notes, tool=_tool(source.beside), gpu=_gpus(source.beside))


def _slices(
    file: str, events: Events, time_unit: str, notes: list[Note]
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray]:
    """Table `slices`, and for its rows: place in `events`, begin and duration in ns."""
    begin, good_begin, rounded = to_ns(events.begin, time_unit)
    duration, good_duration, also = to_ns(events.duration, time_unit)
    if events.ends:
        ends, good_end, more = to_ns([ts for _, ts in events.ends], time_unit)
        place = np.array([p for p, _ in events.ends])
        duration[place] = ends - begin[place]
        good_duration[place] = good_end
        rounded += more
    good = good_begin & good_duration
    rows = np.flatnonzero(good)
    if bad := len(good) - len(rows):
        notes.append(Note("rows", bad, f"{bad} slices have no usable ts or dur and were dropped"))
    if rounded + also:
        notes.append(Note("time", rounded + also, f"{rounded + also} times had digits below 1 ns: rounded to even"))
    negative = int((duration[rows] < 0).sum())
    if negative:
        notes.append(Note("time", negative, f"{negative} slices end before they begin; kept as they are"))
    labels = {c: _picked(getattr(events, c), rows) for c in ("category", "name", "lane")}
    table = frames.table(
        "slices", len(rows), file=file, slice=np.arange(len(rows)), begin_ns=begin[rows], dur_ns=duration[rows], **labels
    )  # fmt: skip
    return table, rows, begin, duration


def _picked(values: list[str], rows: np.ndarray) -> frames.Coded:
    all_rows = frames.coded(values)
    return frames.Coded(all_rows.codes[rows], all_rows.names)


class _Picked:
    """Kernels, copies and ranges among the slices."""

    def __init__(self, file: str, events: Events, rows: np.ndarray, begin: np.ndarray, duration: np.ndarray) -> None:
        self._file, self._events = file, events
        self._begin, self._duration = begin, duration
        self._by: dict[str, list[int]] = {}
        usable = set(rows.tolist())
        for place in events.args:
            if place in usable:
                self._by.setdefault(events.category[place], []).append(place)

    def kernels(self, notes: list[Note]) -> pd.DataFrame:
        calls: dict[int, int] = {}
        for category in CALLS:
            for place in self._by.get(category, []):
                number = _whole(self._events.args[place].get("correlation"))
                seen = calls.setdefault(number, place)
                if self._begin[place] < self._begin[seen]:  # a runtime call around a driver call: the outer one
                    calls[number] = place
        calls.pop(-1, None)
        places = self._by.get("kernel", [])
        args = [self._events.args[p] for p in places]
        correlation = [_whole(a.get("correlation")) for a in args]
        launch = [calls.get(c, -1) for c in correlation]
        return kernel_table(
            self._file, notes, name=[self._events.name[p] for p in places], begin=self._begin[places],
            end=self._begin[places] + self._duration[places], correlation=correlation,
            device=[_whole(a.get("device"), 31) for a in args], context=[_whole(a.get("context"), 31) for a in args],
            stream=[_whole(a.get("stream")) for a in args], graph=[_whole(a.get("graph node id")) for a in args],
            process=[_whole(self._events.lane[p].split("/")[0]) if p >= 0 else -1 for p in launch],
            launch_begin=[int(self._begin[p]) if p >= 0 else -1 for p in launch],
            launch_thread=[self._events.lane[p] if p >= 0 else "" for p in launch], launched=[p >= 0 for p in launch],
            grid=[_size(a.get("grid")) for a in args], block=[_size(a.get("block")) for a in args],
        )  # fmt: skip

    def copies(self) -> pd.DataFrame:
        places = [(p, kind) for category, kind in COPIES.items() for p in self._by.get(category, [])]
        at = [p for p, _ in places]
        args = [self._events.args[p] for p in at]
        return copy_table(
            self._file, kind=[kind for _, kind in places], name=[self._events.name[p] for p in at],
            begin=self._begin[at], end=self._begin[at] + self._duration[at],
            device=[_whole(a.get("device"), 31) for a in args], stream=[_whole(a.get("stream")) for a in args],
            correlation=[_whole(a.get("correlation")) for a in args], size_bytes=[_whole(a.get("bytes")) for a in args],
        )  # fmt: skip

    def ranges(self) -> pd.DataFrame:
        places = self._by.get("user_annotation", [])
        return range_table(
            self._file, name=[self._events.name[p] for p in places], begin=self._begin[places],
            end=self._begin[places] + self._duration[places], thread=[self._events.lane[p] for p in places],
            kind=["user_annotation"] * len(places), domain=[""] * len(places),
        )  # fmt: skip


def _whole(value: Any, bits: int = 62) -> int:
    """A non-negative integer that fits, else -1; texts of integers count."""
    if value.__class__ is int:
        return value if 0 <= value < 1 << bits else -1
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    return value if value.__class__ is int and 0 <= value < 1 << bits else -1


_sizes: dict[tuple[int, ...], str] = {}
"""Grids and blocks seen: a trace has few different ones and thousands of each."""


def _size(value: Any) -> str:
    if value.__class__ is not list or len(value) > 3:
        return ""
    try:
        key = tuple(value)
        if key not in _sizes:
            if len(_sizes) > 100_000:
                _sizes.clear()
            _sizes[key] = ",".join(map(str, value))
        return _sizes[key]
    except TypeError:
        return ",".join(map(str, value))


def _counted(events: Events) -> list[Note]:
    """A line for whatever is not a slice."""
    notes = []
    unfinished = sum(map(len, events.open.values()))
    if unfinished:
        text = f"{unfinished} begins have no end: not in slices, and not closed at the end of the trace"
        notes.append(Note("rows", unfinished, text))
    kinds = sorted(events.other.items())
    for what, count in kinds[:20]:
        notes.append(Note("rows", count, f"{count} {what}: no intervals, passed over"))
    if rest := sum(count for _, count in kinds[20:]):
        notes.append(Note("rows", rest, f"{rest} further events of {len(kinds) - 20} kinds: no intervals, passed over"))
    return notes


def _no_kernels(events: Events) -> Note:
    ranges = sum(c == "cuda_profiler_range" for c in events.category)
    if ranges:
        return Note("kernels", 0, f"no kernel event; {ranges} cuda_profiler_range slices hold counters in their place")
    return Note("kernels", 0, "no kernel event: recorded without a GPU, or by a tool that does not mark kernels")


def _tool(beside: dict[str, Any]) -> str:
    if "schemaVersion" not in beside:
        return ""
    cupti = beside.get("cupti_version")
    return f"Kineto schema {beside['schemaVersion']}" + (f", CUPTI {cupti}" if cupti else "")


def _gpus(beside: dict[str, Any]) -> str:
    devices = beside.get("deviceProperties")
    if not isinstance(devices, list):
        return ""
    return ", ".join(sorted({str(d["name"]) for d in devices if isinstance(d, dict) and d.get("name")}))


def check_counts(path: Path, expected_slices: int) -> None:
    """Raise DataError unless the file holds exactly this many slices: the check after an export."""
    seen = len(load(path).table("slices"))
    if seen != expected_slices:
        raise DataError(f"{path}: {expected_slices} slices were written and {seen} are in it: some were lost")
