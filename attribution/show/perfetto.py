"""Spans as a Perfetto trace: one group of tracks an SM, one track a CTA and role.

In: the spans of one run.  Out: a file that ui.perfetto.dev opens, written whole or not at all.
Slices that overlap without nesting would lose one of them on a single track, so they go to tracks of their own; the
file is read back before it is published, and must hold every slice with its begin and end.
Misuse: packets are streamed; do not build a whole trace in memory (a million slices take over a gigabyte).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pandas as pd

from attribution.errors import DataError
from attribution.show.whole import whole_file

_SEQUENCE = 1
_Slice = tuple[int, int, str, int]  # begin, end, name, arg


def write_perfetto(spans: pd.DataFrame, path: Path) -> int:
    """Write the trace and return its number of slices.  Raises DataError when one is lost, MeasureError for the disk."""
    lanes = _lanes(spans)
    with whole_file(path) as draft:
        with draft.open("wb") as file:
            _write(lanes, file)
        read = read_slices(draft)
        wanted = Counter((b, e, n) for lane in lanes.values() for b, e, n, _ in lane)
        if read != wanted:
            lost, extra = sum((wanted - read).values()), sum((read - wanted).values())
            raise DataError(f"{path}: {lost} of {sum(wanted.values())} slices were lost and {extra} added; not written")
    return sum(wanted.values())


def read_slices(path: Path) -> Counter[tuple[int, int, str]]:
    """Every slice of a trace file as (begin_ns, end_ns, name), as a viewer pairs them: per track, innermost first."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent

    tracks: dict[int, list[tuple[int, bool, str]]] = {}
    with path.open("rb") as file:
        for content in _packets(file):
            packet = TracePacket.FromString(content)
            if packet.HasField("track_event"):
                event = packet.track_event
                begins = event.type == TrackEvent.TYPE_SLICE_BEGIN
                tracks.setdefault(event.track_uuid, []).append((packet.timestamp, begins, event.name))
    found: Counter[tuple[int, int, str]] = Counter()
    for edges in tracks.values():
        stack: list[tuple[int, str]] = []
        # A viewer sorts by time and keeps the file's order where times are equal.
        for time, begins, name in sorted(edges, key=lambda e: e[0]):
            if begins:
                stack.append((time, name))
            elif stack:
                begin, name = stack.pop()
                found[begin, time, name] += 1
    return found


def _lanes(spans: pd.DataFrame) -> dict[tuple[int, int, str], list[_Slice]]:
    """(SM, CTA, role) -> its slices by begin, the longer one first."""
    lanes: dict[tuple[int, int, str], list[_Slice]] = {}
    columns = ("sm", "cta", "role", "begin_ns", "end_ns", "event", "arg")
    for sm, cta, role, begin, end, event, arg in zip(*(spans[c].tolist() for c in columns), strict=True):
        lanes.setdefault((sm, cta, role), []).append((begin, end, event, arg))
    for lane in lanes.values():
        lane.sort(key=lambda s: (s[0], -s[1]))
    return lanes


def _layers(lane: list[_Slice]) -> list[list[_Slice]]:
    """The lane's slices as few tracks on which all nest."""
    layers: list[tuple[list[_Slice], list[int]]] = []
    for one in lane:
        for slices, ends in layers:
            while ends and ends[-1] <= one[0]:
                ends.pop()
            if not ends or one[1] <= ends[-1]:
                slices.append(one)
                ends.append(one[1])
                break
        else:
            layers.append(([one], [one[1]]))
    return [slices for slices, _ in layers]


def _write(lanes: dict[tuple[int, int, str], list[_Slice]], file: BinaryIO) -> None:
    from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

    builder = StreamingTraceProtoBuilder(file)
    uuid = 1
    sms: dict[int, int] = {}
    for (sm, cta, role), lane in sorted(lanes.items()):
        if sm not in sms:
            uuid += 1
            sms[sm] = uuid
            _describe(builder, uuid, f"SM {sm}", None)
        for layer in _layers(lane):
            uuid += 1
            _describe(builder, uuid, f"CTA {cta} {role}", sms[sm])
            for time, begins, one in _edges(layer):
                _event(builder, uuid, time, begins, one)


def _edges(layer: list[_Slice]) -> Iterator[tuple[int, bool, _Slice]]:
    """Begins and ends in the order of time, inner ends first."""
    stack: list[_Slice] = []
    for one in layer:
        while stack and stack[-1][1] <= one[0]:
            last = stack.pop()
            yield last[1], False, last
        yield one[0], True, one
        stack.append(one)
    while stack:
        last = stack.pop()
        yield last[1], False, last


def _describe(builder: object, uuid: int, name: str, parent: int | None) -> None:
    packet = builder.create_packet()  # type: ignore[attr-defined]
    packet.track_descriptor.uuid = uuid
    packet.track_descriptor.name = name
    if parent is not None:
        packet.track_descriptor.parent_uuid = parent
    builder.write_packet(packet)  # type: ignore[attr-defined]


def _event(builder: object, uuid: int, time: int, begins: bool, one: _Slice) -> None:
    packet = builder.create_packet()  # type: ignore[attr-defined]
    packet.timestamp = time
    packet.trusted_packet_sequence_id = _SEQUENCE
    event = packet.track_event
    event.type = event.TYPE_SLICE_BEGIN if begins else event.TYPE_SLICE_END
    event.track_uuid = uuid
    if begins:
        event.name = one[2]
        note = event.debug_annotations.add()
        note.name, note.int_value = "arg", one[3]
    builder.write_packet(packet)  # type: ignore[attr-defined]


def _packets(file: BinaryIO) -> Iterator[bytes]:
    """The packets of a trace file: each is field 1 of the trace, length-delimited."""
    while tag := file.read(1):
        if tag != b"\x0a":
            raise DataError(f"not a Perfetto trace: field tag {tag!r} at byte {file.tell() - 1}")
        size = shift = 0
        while True:
            byte = file.read(1)
            if not byte:
                raise DataError("Perfetto trace is cut off in the middle of a packet")
            size |= (byte[0] & 127) << shift
            shift += 7
            if not byte[0] & 128:
                break
        yield file.read(size)
