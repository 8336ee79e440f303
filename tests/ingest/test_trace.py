"""Raw trace buffers: identity, loss, wraps and clocks."""

from __future__ import annotations

import numpy as np
import pytest

from attribution import layout
from attribution.errors import DataError
from attribution.ingest import trace
from attribution.ingest.trace import allocate, cycles_to_ns, decode, unwrap

RECORD, LANE = layout.dtype(layout.RECORD), layout.dtype(layout.LANE)


def fill(
    buffer: np.ndarray,
    ctas: int,
    roles: int,
    cta: int,
    role: int,
    records: list[tuple[int, int, int, int]],
    **header: int,
) -> None:
    """Do on the CPU what a lane does: write (time, arg, event, edge) and close, counting attempts past the capacity."""
    headers = buffer[: ctas * roles * LANE.itemsize].view(LANE)
    lane = headers[cta * roles + role]
    place = buffer[: len(buffer) // 16 * 16].view(RECORD)
    for i, record in enumerate(records[: int(lane["capacity"])]):
        place[int(lane["first"]) + i] = record
    times = [r[0] for r in records]
    length = times[-1] - times[0]
    facts = {
        "state": layout.CLOSED,
        "attempts": len(records),
        "timer_begin_ns": times[0],
        "timer_end_ns": times[-1],
    }
    facts |= {"clock_begin": 7, "clock_end": 7 + length * 3 // 2, **header}
    for name, value in facts.items():
        headers[name][cta * roles + role] = value


def test_cycles_are_not_nanoseconds() -> None:
    """Anchors (1234, 42 ns) and (7890, 10086 ns)."""
    time, clock = cycles_to_ns(np.array([2345, 4567, 5678]), ((1234, 42.0), (7890, 10086.0)))
    np.testing.assert_allclose(time, [1718.5, 5071.5, 6748.1], atol=0.05)
    assert round(clock, 3) == 0.663
    time, clock = cycles_to_ns(np.array([0, 1755]), ((0, 0.0), (175500, 100000.0)))
    np.testing.assert_allclose(time, [0, 1000])


@pytest.mark.parametrize(
    "anchors",
    [
        ((0, 0.0), (10**9, 1000.0)),
        ((0, 0.0), (10, 1e6)),
        ((0, 5.0), (10, 5.0)),
        ((10, 0.0), (0, 9.0)),
    ],
)
def test_an_impossible_clock_is_an_error(anchors: tuple) -> None:
    with pytest.raises(DataError, match="imply a clock"):
        cycles_to_ns(np.array([1]), anchors)


def test_clocks_of_different_sms_meet_only_in_time() -> None:
    """SM 0 and SM 1 count 3.5e9 cycles apart, both at 1.755 GHz, and are simultaneous at 1000 ns."""
    a, _ = cycles_to_ns(np.array([1_001_755]), ((1_000_000, 0.0), (2_755_000, 1e6)))
    b, _ = cycles_to_ns(np.array([3_540_001_755]), ((3_540_000_000, 0.0), (3_541_755_000, 1e6)))
    np.testing.assert_allclose([a[0], b[0]], [1000, 1000])


def test_a_32_bit_timer_wraps() -> None:
    assert np.diff(unwrap(np.array([0xFFFFFF00, 0x00000040], np.uint32))).tolist() == [320]
    assert unwrap(np.array([5, 5, 7, 3], np.uint32)).tolist() == [5, 5, 7, 2**32 + 3]
    assert unwrap(np.zeros(0, np.uint32)).tolist() == []


def test_identity_survives_over_the_full_range_of_every_field() -> None:
    """Where a record lies says who wrote it; no field shares bits with another."""
    ctas, roles = 4098, 2
    buffer = allocate(ctas, roles, 2, 1)
    top = {"time_ns": 2**63 - 1, "arg": 2**31 - 1}
    fill(buffer, ctas, roles, 4097, 0, [(top["time_ns"], top["arg"], 6, 1)], sm_begin=16, sm_end=16)
    fill(buffer, ctas, roles, 3, 1, [(top["time_ns"], -1, 0, 0)], sm_begin=17, sm_end=17)
    fill(buffer, ctas, roles, 3, 0, [(top["time_ns"] - 5, 0, 3, 1)], sm_begin=17, sm_end=17)
    raw = decode(buffer, ctas, roles, 7)
    assert raw.events[["cta", "role", "event", "edge", "arg", "time_ns"]].to_numpy().tolist() == [
        [3, 0, 3, 1, 0, 0],
        [3, 1, 0, 0, -1, 5],
        [4097, 0, 6, 1, 2**31 - 1, 5],
    ]
    assert raw.lanes[["cta", "role", "sm_begin"]].to_numpy().tolist() == [
        [3, 0, 17],
        [3, 1, 17],
        [4097, 0, 16],
    ]


def test_a_record_of_zeros_is_valid_when_it_was_committed() -> None:
    buffer = allocate(1, 1, 4, 1)
    fill(buffer, 1, 1, 0, 0, [(0, 0, 0, 0), (0, 0, 0, 1)])
    assert decode(buffer, 1, 1, 1).events["edge"].tolist() == [0, 1]


def test_lost_records_are_counted() -> None:
    """1200 attempts into a capacity of 1024."""
    buffer = allocate(2, 1, 1024, 1)
    fill(buffer, 2, 1, 1, 0, [(i, i, 0, i % 2) for i in range(1200)])
    raw = decode(buffer, 2, 1, 1)
    assert len(raw.events) == 1024
    assert raw.lanes[["cta", "attempts", "capacity"]].to_numpy().tolist() == [[1, 1200, 1024]]


def test_only_chosen_ctas_have_room() -> None:
    small, whole = allocate(100, 3, 64, 2, traced_ctas=2), allocate(100, 3, 64, 2)
    assert len(whole) - len(small) == 98 * 3 * 64 * 16
    headers = small[: 300 * LANE.itemsize].view(LANE)
    assert headers["level"].tolist() == [2] * 6 + [0] * 294


def test_damaged_buffers_are_errors() -> None:
    buffer = allocate(2, 2, 4, 1)
    fill(buffer, 2, 2, 1, 1, [(1, 1, 0, 0)])
    with pytest.raises(DataError, match="need 352 and whole records|need"):
        decode(buffer[:100], 2, 2, 1)
    with pytest.raises(DataError, match="event 0, edge 0; declared are 0"):
        decode(buffer, 2, 2, 0)
    for field, value, why in (
        ("state", layout.OPEN, "never closed, first CTA 1, role 1"),
        ("first", 10**6, "headers are damaged"),
        ("state", 9, "damaged"),
    ):
        broken = buffer.copy()
        broken[: 4 * LANE.itemsize].view(LANE)[field][3] = value
        with pytest.raises(DataError, match=why):
            decode(broken, 2, 2, 1)


def test_anchors_give_each_lane_its_clock() -> None:
    buffer = allocate(1, 1, 4, 1)
    fill(
        buffer,
        1,
        1,
        0,
        0,
        [(500, 0, 0, 0)],
        clock_begin=10,
        clock_end=1990,
        timer_begin_ns=100,
        timer_end_ns=1100,
    )
    row = decode(buffer, 1, 1, 1).anchors.iloc[0]
    assert row["clock_ghz"] == 1.98
    assert (row["begin_ns"], row["end_ns"]) == (-400, 600)
    assert trace.CLOCK_GHZ[0] < row["clock_ghz"] < trace.CLOCK_GHZ[1]


def lane_of(buffer: np.ndarray) -> np.ndarray:
    return buffer[: LANE.itemsize].view(LANE)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"timer_begin_ns": 1100}, "1 records lie outside"),
        ({"timer_end_ns": 2000}, "1 records lie outside"),
        (
            {"clock_end": 7 + 100 * 1500},
            "impossible clock, first CTA 0, role 0: 150000 cycles in 1500 ns",
        ),
        ({"clock_end": 8}, "impossible clock"),
        ({"clock_begin": 10**6}, "impossible clock"),
    ],
)
def test_a_lane_that_cannot_be_of_one_sm_and_one_timer_is_no_timeline(change: dict[str, int], why: str) -> None:
    buffer = allocate(1, 1, 4, 1)
    records = [(1000, 0, 0, 0), (1500, 0, 0, 1), (2500, 1, 0, 0)]
    fill(buffer, 1, 1, 0, 0, records)
    assert len(decode(buffer, 1, 1, 1).events) == 3
    for name, value in change.items():
        lane_of(buffer)[name] = value
    with pytest.raises(DataError, match=why):
        decode(buffer, 1, 1, 1)


def test_time_that_runs_backwards_within_a_lane_is_an_error_between_lanes_it_is_not() -> None:
    buffer = allocate(2, 1, 4, 1)
    fill(buffer, 2, 1, 0, 0, [(5000, 0, 0, 0), (6000, 0, 0, 1)])
    fill(buffer, 2, 1, 1, 0, [(1000, 0, 0, 0), (2000, 0, 0, 1)])
    assert decode(buffer, 2, 1, 1).events["time_ns"].tolist() == [4000, 5000, 0, 1000]
    fill(buffer, 2, 1, 1, 0, [(1000, 0, 0, 0), (1500, 0, 0, 1), (1200, 0, 0, 0), (2000, 0, 0, 1)])
    with pytest.raises(DataError, match="1 records run backwards, first in CTA 1"):
        decode(buffer, 2, 1, 1)


def test_a_lane_shorter_than_a_tick_implies_no_clock_and_one_that_migrated_neither() -> None:
    buffer = allocate(2, 1, 4, 1)
    fill(buffer, 2, 1, 0, 0, [(320, 0, 0, 0), (320, 0, 0, 1)], clock_begin=0, clock_end=60)
    fill(buffer, 2, 1, 1, 0, [(320, 0, 0, 0), (352, 0, 0, 1)])
    assert np.isnan(decode(buffer, 2, 1, 1).anchors["clock_ghz"][0])
    fill(buffer, 2, 1, 1, 0, [(320, 0, 0, 0), (352, 0, 0, 1)], sm_begin=3, sm_end=9, clock_end=10**9)
    assert decode(buffer, 2, 1, 1).lanes[["sm_begin", "sm_end"]].to_numpy().tolist()[1] == [3, 9]
