"""The bytes of an in-kernel trace, written once: C++ and Python both read them from here.

In: nothing.  Out: `RECORD`, `LANE` (field -> type) for numpy (`dtype`) and for the compiler
(`header`, the text of the generated `attr/layout.cuh`).
A trace is one buffer: lanes [ctas, roles], each `LANE` bytes long, then the records.  A lane says
where its records begin, how many it may hold and up to which level it records; where a record lies
says who wrote it.
Misuse: do not write these structs by hand in a .cuh; `attr/trace.cuh` asserts the generated sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

RECORD: Mapping[str, str] = {
    "time_ns": "uint64",  # %globaltimer, all 64 bits: it does not wrap
    "arg": "int32",  # first row of the batch, tile, or what the event declares
    "event": "uint16",  # index into the kernel's events
    "edge": "uint16",  # 0 begin, 1 end
}
"""One record: an aligned 16-byte store.  All words zero is a valid record."""

LANE: Mapping[str, str] = {
    "first": "uint32",  # host: index of its first record, in records from the start of the buffer
    "capacity": "uint32",  # host: records that it may hold
    "level": "uint32",  # host: events up to this level are recorded (TRACE must allow them too)
    "state": "uint32",  # 0 never opened, 1 open, 2 closed
    "attempts": "uint64",  # records that it tried to write; above capacity they are lost
    "sm_begin": "uint32",  # %smid when it was opened
    "sm_end": "uint32",  # %smid when it was closed
    "clock_begin": "uint64",  # clock64 and %globaltimer read together when it was opened
    "timer_begin_ns": "uint64",
    "clock_end": "uint64",  # and when it was closed: cycles of this lane convert between the two
    "timer_end_ns": "uint64",
}
"""One lane: (CTA, role).  Before the launch `host` fields are set and all others are zero."""

NEVER_OPENED, OPEN, CLOSED = 0, 1, 2

_C_TYPES = {
    "uint64": "unsigned long long",
    "uint32": "unsigned int",
    "uint16": "unsigned short",
    "int32": "int",
}


def dtype(fields: Mapping[str, str]) -> np.dtype[np.void]:
    """The little-endian numpy dtype of `RECORD` or `LANE`, without padding."""
    import numpy as np

    return np.dtype([(name, np.dtype(kind).newbyteorder("<")) for name, kind in fields.items()])


def header() -> str:
    """Text of `attr/layout.cuh`: the structs and their sizes, in namespace `attr`."""
    lines = ["#pragma once", "// Generated from attribution/layout.py.", "namespace attr {"]
    for struct, fields in (("Record", RECORD), ("LaneHeader", LANE)):
        body = [f"  {_C_TYPES[kind]} {name};" for name, kind in fields.items()]
        lines += [f"struct alignas(16) {struct} {{", *body, "};"]
        lines += [f"constexpr unsigned int bytes_of_{struct} = {_size(fields)};"]
    states = f"never_opened = {NEVER_OPENED}, open = {OPEN}, closed = {CLOSED}"
    lines += [f"enum LaneState : unsigned int {{ {states} }};", "}  // namespace attr", ""]
    return "\n".join(lines)


def _size(fields: Mapping[str, str]) -> int:
    """Bytes of a struct without padding, as numpy has it: where sizeof agrees, offsets do too."""
    return sum(int(kind.lstrip("uint")) // 8 for kind in fields.values())
