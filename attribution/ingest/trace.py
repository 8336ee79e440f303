"""Raw in-kernel trace buffers to the tables `events` and `lanes`, and clocks to time.

In: the bytes of a buffer as `attr/trace.cuh` leaves it (layout in `attribution/layout.py`).  Out: conforming frames.
Time is %globaltimer, common to all SMs.  clock64 belongs to one SM: it is converted between the two anchors of its own lane
and is never subtracted across SMs.
Misuse: a lane whose anchors imply a clock that the chip cannot have is an error, not a timeline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attribution import layout
from attribution.errors import DataError
from attribution.tables import conform

CLOCK_GHZ = (0.2, 3.0)
"""Clocks that a chip may have; an anchor pair outside of it was not written by one SM and one timer."""


@dataclass(frozen=True)
class RawTrace:
    """A decoded buffer: `events` and `lanes` as in `attribution.tables`, and `anchors` (one row a closed lane)."""

    events: pd.DataFrame
    lanes: pd.DataFrame
    anchors: pd.DataFrame


def allocate(ctas: int, roles: int, capacity: int, level: int, traced_ctas: int | None = None) -> NDArray[np.uint8]:
    """The buffer to hand to a launch: headers set, everything else zero.

    The first `traced_ctas` CTAs (all when None) record up to `level`, the others nothing.
    """
    lane, record = layout.dtype(layout.LANE), layout.dtype(layout.RECORD)
    headers = np.zeros(ctas * roles, dtype=lane)
    base = len(headers) * lane.itemsize // record.itemsize
    traced = ctas if traced_ctas is None else min(traced_ctas, ctas)
    count = traced * roles
    headers["first"][:count] = base + capacity * np.arange(count)
    headers["capacity"][:count] = capacity
    headers["level"][:count] = level
    records = np.zeros(count * capacity * record.itemsize, dtype=np.uint8)
    return np.concatenate([headers.view(np.uint8), records])


def decode(buffer: NDArray[np.uint8], ctas: int, roles: int, events: int, run: int = 0) -> RawTrace:
    """Decode the buffer of one launch of `ctas` CTAs.  Raises DataError for bytes that no such launch can have left."""
    lane, record = layout.dtype(layout.LANE), layout.dtype(layout.RECORD)
    size = ctas * roles * lane.itemsize
    if len(buffer) < size or (len(buffer) - size) % record.itemsize:
        raise DataError(
            f"trace buffer of {len(buffer)} bytes: {ctas} CTAs with {roles} roles need {size} and whole records"
        )
    headers = buffer[:size].view(lane)
    records = buffer.view(np.uint8)[: len(buffer) // record.itemsize * record.itemsize].view(record)
    opened = np.flatnonzero(headers["state"] != layout.NEVER_OPENED)
    _check_headers(headers, opened, len(records), roles)
    kept = np.minimum(headers["attempts"], headers["capacity"])[opened].astype(np.int64)
    start = headers["first"][opened].astype(np.int64)
    where = np.repeat(start - np.r_[0, np.cumsum(kept)[:-1]], kept) + np.arange(kept.sum())
    found = records[where]
    owner = np.repeat(opened, kept)
    if len(found) and (int(found["event"].max()) >= events or int(found["edge"].max()) > 1):
        raise DataError(
            f"trace: a record holds event {found['event'].max()}, edge {found['edge'].max()}; declared are {events} events"
        )
    _check_times(headers, owner, found, roles)
    _check_clocks(headers, opened, roles, found)
    origin = int(found["time_ns"].min()) if len(found) else 0
    table = pd.DataFrame(
        {
            "run": run,
            "cta": owner // roles,
            "role": owner % roles,
            "event": found["event"],
            "edge": found["edge"],
            "arg": found["arg"],
            "time_ns": (found["time_ns"] - np.uint64(origin)).astype(np.int64),
        }
    )
    return RawTrace(
        conform("events", table),
        _lanes(headers, opened, roles, run),
        _anchors(headers, opened, roles, origin),
    )


def _check_headers(headers: NDArray[np.void], opened: NDArray[np.int64], records: int, roles: int) -> None:
    """Raises DataError for a lane that was left open, or that points outside the buffer."""
    still = opened[headers["state"][opened] == layout.OPEN]
    if len(still):
        raise DataError(
            f"trace: {len(still)} lanes were opened and never closed, first CTA {still[0] // roles}, role {still[0] % roles}: "
            "the kernel did not reach `close` there"
        )
    last = headers["first"][opened].astype(np.int64) + headers["capacity"][opened]
    if len(opened) and (headers["state"][opened].max() > layout.CLOSED or last.max() > records):
        raise DataError(f"trace: a lane ends at record {last.max()} of a buffer of {records}: headers are damaged")


def _check_times(headers: NDArray[np.void], owner: NDArray[np.int64], found: NDArray[np.void], roles: int) -> None:
    """Raises DataError for a record outside of its lane's own time, or before the one before it."""
    time_ns = found["time_ns"]
    outside = (time_ns < headers["timer_begin_ns"][owner]) | (time_ns > headers["timer_end_ns"][owner])
    back = np.append(False, (owner[1:] == owner[:-1]) & (time_ns[1:] < time_ns[:-1]))[: len(owner)]
    for bad, why in (
        (outside, "lie outside of their lane's begin and end"),
        (back, "run backwards"),
    ):
        if bad.any():
            lane = int(owner[bad][0])
            raise DataError(
                f"trace: times of {int(bad.sum())} records {why}, first in CTA {lane // roles}, role {lane % roles}"
            )


def _check_clocks(headers: NDArray[np.void], opened: NDArray[np.int64], roles: int, found: NDArray[np.void]) -> None:
    """Raises DataError for a lane whose anchors imply a clock outside CLOCK_GHZ.

    Both anchors are known to a tick, so a lane of few ticks implies a wide range.  A lane that
    migrated has anchors of two SMs and implies nothing.
    """
    lane = headers[opened]
    stamps = (lane["timer_begin_ns"], lane["timer_end_ns"], found["time_ns"])
    distinct = np.unique(np.concatenate(stamps))
    tick = int(np.gcd.reduce(np.diff(distinct))) if len(distinct) > 1 else 0
    cycles = lane["clock_end"].astype(np.float64) - lane["clock_begin"].astype(np.float64)
    length = (lane["timer_end_ns"] - lane["timer_begin_ns"]).astype(np.float64)
    bad = (cycles > CLOCK_GHZ[1] * (length + tick)) | (cycles < CLOCK_GHZ[0] * (length - tick))
    bad &= (lane["sm_begin"] == lane["sm_end"]) & (tick > 0)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"trace: {int(bad.sum())} lanes imply an impossible clock, first CTA {opened[i] // roles}, "
            f"role {opened[i] % roles}: {cycles[i]:.0f} cycles in {length[i]:.0f} ns; allowed is "
            f"{CLOCK_GHZ[0]:g} to {CLOCK_GHZ[1]:g} GHz"
        )


def _lanes(headers: NDArray[np.void], opened: NDArray[np.int64], roles: int, run: int) -> pd.DataFrame:
    frame = {"run": np.full(len(opened), run), "cta": opened // roles, "role": opened % roles}
    for name in ("sm_begin", "sm_end", "attempts", "capacity"):
        frame[name] = headers[name][opened].astype(np.int64)
    return conform("lanes", pd.DataFrame(frame))


def _anchors(headers: NDArray[np.void], opened: NDArray[np.int64], roles: int, origin: int) -> pd.DataFrame:
    """cta, role, sm, clock_begin, clock_end (cycles), begin_ns, end_ns (as the events' time), clock_ghz."""
    closed = headers[opened]
    cycles = (closed["clock_end"] - closed["clock_begin"]).astype(np.int64)
    length = (closed["timer_end_ns"] - closed["timer_begin_ns"]).astype(np.int64)
    with np.errstate(divide="ignore", invalid="ignore"):
        clock = np.where(length > 0, cycles / length, np.nan)
    return pd.DataFrame(
        {
            "cta": opened // roles,
            "role": opened % roles,
            "sm": closed["sm_begin"].astype(np.int64),
            "clock_begin": closed["clock_begin"].astype(np.int64),
            "clock_end": closed["clock_end"].astype(np.int64),
            "begin_ns": closed["timer_begin_ns"].astype(np.int64) - origin,
            "end_ns": closed["timer_end_ns"].astype(np.int64) - origin,
            "clock_ghz": clock,
        }
    )


def cycles_to_ns(
    cycles: NDArray[np.int64], anchors: tuple[tuple[int, float], tuple[int, float]]
) -> tuple[NDArray[np.float64], float]:
    """Cycles of one SM as ns, on the line through its two anchors (cycle, ns), and the clock that they imply, GHz.

    Raises DataError for anchors that imply a clock outside CLOCK_GHZ: they are not of one SM, or not of one timer.
    """
    (c0, t0), (c1, t1) = anchors
    clock = (c1 - c0) / (t1 - t0) if t1 > t0 else float("inf")
    if not CLOCK_GHZ[0] <= clock <= CLOCK_GHZ[1]:
        raise DataError(
            f"anchors ({c0} cycles, {t0:g} ns) and ({c1}, {t1:g}) imply a clock of {clock:.3g} GHz; allowed is "
            f"{CLOCK_GHZ[0]:g} to {CLOCK_GHZ[1]:g}: they are not of one SM and one timer"
        )
    return t0 + (np.asarray(cycles, dtype=np.int64) - c0) / clock, clock


def unwrap(low_words: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Times of one lane from a 32-bit ns timer, in order: each step below zero means that the timer wrapped (4.29 s).

    Steps of more than 4.29 s cannot be seen; a lane that may be silent for longer needs the 64-bit timer.
    """
    words = np.asarray(low_words, dtype=np.uint32)
    steps = np.diff(words).astype(np.uint32).astype(np.int64)
    return np.r_[np.int64(words[0]), words[0].astype(np.int64) + np.cumsum(steps)] if len(words) else steps
