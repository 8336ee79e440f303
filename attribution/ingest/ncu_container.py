"""The outer layout of a .ncu-rep file: what it announces, checked before it is believed.

In: the file's bytes.  Out: the number of profiled results that its blocks announce.
Layout (seen in 13 reports of ncu 2019 to 2025): `NVR\\0`, u32 length, header message; then blocks to
the end of the file, each u32 length, header message, payload.  Header field 2 is the number of
results, field 5 the payload's size; the payload is a row of u32 length and message.
Misuse: the profiler's own reader gives the launches before the damage and says nothing; so a file
whose blocks do not end exactly at its end is refused here.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from attribution.errors import DataError
from attribution.ingest import bounded

MAGIC = b"NVR\0"
_RESULTS, _PAYLOAD = 2, 5
_MAX_VARINT_BYTES = 10


def announced_results(path: Path) -> int:
    """Results (launches and ranges) that the file's blocks announce.

    Raises DataError for a file that is not a report, is cut, or whose lengths disagree.
    """
    bounded.check_file(path)
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as b:
            return _walk(b, path.name)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def _walk(data: mmap.mmap, name: str) -> int:
    if data[:4] != MAGIC:
        raise DataError(f"{name}: does not begin with NVR: not a report of Nsight Compute")
    at = _after(data, 4, _length(data, 4, name), name)
    results = 0
    while at < len(data):
        size = _length(data, at, name)
        header_end = _after(data, at, size, name)
        fields = _varints(data[at + 4 : header_end], name)
        payload_end = header_end + fields.get(_PAYLOAD, 0)
        if payload_end > len(data):
            raise _cut(name, payload_end, len(data))
        at = header_end
        while at < payload_end:
            at = _after(data, at, _length(data, at, name), name)
        if at != payload_end:
            raise DataError(f"{name}: damaged: a message crosses the end of its block at byte {at:,}")
        results += fields.get(_RESULTS, 0)
    return results


def _length(data: mmap.mmap, at: int, name: str) -> int:
    if at + 4 > len(data):
        raise _cut(name, at + 4, len(data))
    return int(struct.unpack_from("<I", data, at)[0])


def _after(data: mmap.mmap, at: int, size: int, name: str) -> int:
    end = at + 4 + size
    if end > len(data):
        raise _cut(name, end, len(data))
    return end


def _cut(name: str, needed: int, there: int) -> DataError:
    return DataError(
        f"{name}: truncated or damaged: a part ends at byte {needed:,} and the file has {there:,}; "
        "copy it again, or profile again"
    )


def _varints(message: bytes, name: str) -> dict[int, int]:
    """Integer fields of a protobuf message, others passed over.  Raises DataError."""
    at, found = 0, {}
    while at < len(message):
        key, at = _varint(message, at, name)
        kind = key & 7
        if kind == 0:
            found[key >> 3], at = _varint(message, at, name)
        elif kind == 2:
            size, at = _varint(message, at, name)
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise DataError(f"{name}: damaged: a block's header holds an unknown field type {kind}")
    if at != len(message):
        raise DataError(f"{name}: damaged: a field of a block's header crosses its end")
    return found


def _varint(message: bytes, at: int, name: str) -> tuple[int, int]:
    value = 0
    for place in range(_MAX_VARINT_BYTES):
        if at + place >= len(message):
            break
        byte = message[at + place]
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise DataError(f"{name}: damaged: a number in a block's header does not end")
