"""Spans from events, with what tracers get wrong: lost, unmatched, migrated, tick, probes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from planted import PLANTED_EVENTS, PLANTED_ROLES, traced

from attribution.analyze import nesting
from attribution.analyze import spans as sp
from attribution.declare import Event
from attribution.errors import DataError

ROLES = ("math", "topk")
EVENTS = (Event("score", "math"), Event("free", "math", waits_for="topk"), Event("select", "topk"))


def events(*rows: tuple[int, int, int, int, int]) -> pd.DataFrame:
    """Rows of (cta, role, event, edge, time)."""
    cta, role, event, edge, time = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    return pd.DataFrame(
        {
            "run": 0,
            "cta": cta,
            "role": role,
            "event": event,
            "edge": edge,
            "arg": time,
            "time_ns": time,
        }
    )


def lanes(*rows: tuple[int, int, int, int], attempts: int = 0, capacity: int = 100) -> pd.DataFrame:
    """Rows of (cta, role, sm at begin, sm at end)."""
    cta, role, begin, end = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return pd.DataFrame(
        {
            "run": 0,
            "cta": cta,
            "role": role,
            "sm_begin": begin,
            "sm_end": end,
            "attempts": attempts,
            "capacity": capacity,
        }
    )


def pairs(frame: pd.DataFrame) -> list[tuple[int, str, int, int]]:
    return list(
        zip(
            frame["cta"],
            frame["event"].astype(str),
            frame["begin_ns"],
            frame["end_ns"],
            strict=True,
        )
    )


def test_flat_and_nested_lanes_give_the_same_kind_of_spans() -> None:
    flat = events((0, 0, 0, 0, 10), (0, 0, 0, 1, 20), (0, 0, 1, 0, 20), (0, 0, 1, 1, 25))
    made = sp.spans(flat, lanes((0, 0, 7, 7)), ROLES, EVENTS)
    assert pairs(made) == [(0, "score", 10, 20), (0, "free", 20, 25)]
    assert made["wait"].tolist() == [False, True]
    assert made["waits_for"].astype(str).tolist() == ["", "topk"]
    assert made["sm"].tolist() == [7, 7]
    nested = events((0, 0, 0, 0, 10), (0, 0, 1, 0, 12), (0, 0, 1, 1, 15), (0, 0, 0, 1, 20))
    assert pairs(sp.spans(nested, lanes((0, 0, 7, 7)), ROLES, EVENTS)) == [
        (0, "score", 10, 20),
        (0, "free", 12, 15),
    ]


def test_lanes_may_be_interleaved() -> None:
    mixed = events((0, 0, 0, 0, 1), (1, 0, 0, 0, 2), (0, 0, 0, 1, 3), (1, 0, 0, 1, 4))
    made = sp.spans(mixed, lanes((0, 0, 1, 1), (1, 0, 2, 2)), ROLES, EVENTS)
    assert pairs(made) == [(0, "score", 1, 3), (1, "score", 2, 4)]


def test_flat_pairs_of_mixed_lanes_come_out_in_lane_order() -> None:
    """Begin and end alternate, yet lanes lie in the order of time: overlap needs whole CTAs together."""
    tables = traced(ctas=6, sms=3, batches=3)
    whole = sp.spans(tables["events"], tables["lanes"], PLANTED_ROLES, PLANTED_EVENTS)
    pair = np.arange(len(tables["events"])) // 2 * 2
    by_time = np.argsort(tables["events"]["time_ns"].to_numpy()[pair], kind="stable")
    mixed = tables["events"].iloc[by_time].reset_index(drop=True)
    assert not mixed.equals(tables["events"])
    pd.testing.assert_frame_equal(sp.spans(mixed, tables["lanes"], PLANTED_ROLES, PLANTED_EVENTS), whole)


def test_a_begin_without_an_end_is_listed_and_never_closed() -> None:
    """The last event of the lane lost its end; the two whole spans before it stay."""
    damaged = events(
        (0, 0, 0, 0, 1), (0, 0, 1, 0, 2), (0, 0, 1, 1, 3), (0, 0, 0, 1, 4), (0, 0, 0, 0, 5),
        (1, 1, 2, 0, 1), (1, 1, 2, 1, 9),
    )  # fmt: skip
    made = sp.spans(damaged, lanes((0, 0, 0, 0), (1, 1, 0, 0)), ROLES, EVENTS)
    assert pairs(made) == [(0, "score", 1, 4), (0, "free", 2, 3), (1, "select", 1, 9)]
    left = sp.unpaired(damaged, ROLES, EVENTS)
    assert left[["cta", "role", "event", "edge", "time_ns"]].to_numpy().tolist() == [[0, "math", "score", "begin", 5]]


def test_an_end_without_a_begin_and_a_lost_inner_end_are_listed() -> None:
    damaged = events(
        (0, 0, 0, 1, 1),
        (0, 0, 0, 0, 2),
        (0, 0, 1, 0, 3),
        (0, 0, 0, 1, 6),
        (0, 0, 0, 0, 7),
        (0, 0, 0, 1, 8),
    )
    made = sp.spans(damaged, lanes((0, 0, 0, 0)), ROLES, EVENTS)
    assert pairs(made) == [(0, "score", 2, 6), (0, "score", 7, 8)]
    assert sp.unpaired(damaged, ROLES, EVENTS)["edge"].tolist() == ["end", "begin"]


def test_random_nesting_agrees_with_a_stack() -> None:
    rng = np.random.default_rng(3)
    rows, wanted = [], []
    for cta in range(20):
        stack, time = [], 0
        for _ in range(40):
            time += int(rng.integers(0, 3))
            if stack and rng.random() < 0.5:
                code, begin = stack.pop()
                rows.append((cta, 0, code, 1, time))
                wanted.append((cta, EVENTS[code].name, begin, time))
            else:
                code = int(rng.integers(0, 2))
                stack.append((code, time))
                rows.append((cta, 0, code, 0, time))
        while stack:
            code, begin = stack.pop()
            rows.append((cta, 0, code, 1, time))
            wanted.append((cta, EVENTS[code].name, begin, time))
    made = sp.spans(events(*rows), lanes(*((c, 0, c, c) for c in range(20))), ROLES, EVENTS)
    assert sorted(pairs(made)) == sorted(wanted)


def test_lost_records_are_counted_the_lane_is_named_and_totals_are_refused() -> None:
    """1200 attempts into a capacity of 1024: 176 lost."""
    lossy = lanes((3, 1, 0, 0), attempts=1200, capacity=1024)
    assert sp.losses(lossy, ROLES)[["cta", "role", "lost"]].to_numpy().tolist() == [[3, "topk", 176]]
    with pytest.raises(DataError, match=r"176 records were lost in 1 lanes, first CTA 3, role topk \(1200 attempts"):
        sp.check_complete(lossy, ROLES)
    sp.check_complete(lanes((3, 1, 0, 0), attempts=1024, capacity=1024), ROLES)


def test_a_lane_that_ends_on_another_sm_is_flagged() -> None:
    two = events((0, 0, 0, 0, 1), (0, 0, 0, 1, 2), (1, 0, 0, 0, 1), (1, 0, 0, 1, 2))
    made = sp.spans(two, lanes((0, 0, 3, 9), (1, 0, 4, 4)), ROLES, EVENTS)
    assert made["migrated"].tolist() == [True, False]
    assert made["sm"].tolist() == [3, 4]


def test_claims_below_two_ticks_are_refused() -> None:
    assert sp.duration_text(3072, 1024) == "3072 ns ± 1024"
    with pytest.raises(DataError, match="below two ticks"):
        sp.duration_text(2047, 1024)


@pytest.mark.parametrize(
    ("times", "publish"),
    [((3582, 7218, 15238), False), ((3582, 3600, 3611), True), ((3582,), False)],
)
def test_a_probe_that_costs_too_much_only_locates(times: tuple[float, ...], publish: bool) -> None:
    gate = sp.probe_gate(times)
    assert gate["publish"] is publish
    assert gate["cost"][0] == 1.0


def test_undeclared_codes_lost_headers_and_backward_spans_are_errors() -> None:
    good = events((0, 0, 0, 0, 5), (0, 0, 0, 1, 9))
    with pytest.raises(DataError, match="event 9 is not declared"):
        sp.spans(good.assign(event=9), lanes((0, 0, 0, 0)), ROLES, EVENTS)
    with pytest.raises(DataError, match="no lane header for CTA 0, role math"):
        sp.spans(good, lanes((1, 0, 0, 0)), ROLES, EVENTS)
    with pytest.raises(DataError, match="end before they begin"):
        sp.spans(good.assign(time_ns=[9, 5]), lanes((0, 0, 0, 0)), ROLES, EVENTS)


def test_an_empty_trace_has_no_spans() -> None:
    made = sp.spans(events(), lanes((0, 0, 0, 0)), ROLES, EVENTS)
    assert len(made) == 0
    assert len(sp.unpaired(events(), ROLES, EVENTS)) == 0


def test_a_probe_that_costs_exactly_the_limit_is_published() -> None:
    assert sp.probe_gate((4, 5), limit=0.25)["publish"] is True
    assert sp.probe_gate((4, 5), limit=0.2499)["publish"] is False


def walk(rng: np.random.Generator, flat: bool, count: int = 3) -> list[tuple[int, int]]:
    """(event, edge) of one lane: spans that nest in spans of other events, or follow each other when `flat`."""
    out: list[tuple[int, int]] = []
    stack: list[int] = []
    for _ in range(40):
        free = [c for c in range(count) if c not in stack]
        if stack and (flat or not free or rng.random() < 0.5):
            out.append((stack.pop(), 1))
        else:
            stack.append(int(rng.choice(free)))
            out.append((stack[-1], 0))
    return [*out, *((code, 1) for code in reversed(stack))]


def by_stack(frame: pd.DataFrame) -> set[tuple[int, int]]:
    """Pairs of positions, lane by lane, with nothing but a stack."""
    key = nesting.lane_keys(frame)
    edge, event = frame["edge"].to_numpy(), frame["event"].to_numpy()
    return {p for k in np.unique(key) for p in nesting._stack(np.flatnonzero(key == k), edge, event)}


def positions(frame: pd.DataFrame) -> set[tuple[int, int]]:
    first, last = (np.arange(len(frame))[where] for where in nesting.pairs_of(frame))
    return set(zip(first.tolist(), last.tolist(), strict=True))


@pytest.mark.parametrize("flat", [False, True])
def test_every_way_of_pairing_agrees_with_a_stack(flat: bool) -> None:
    """The two fast ways on whole lanes, the way by depth on the same, and on lanes that lost records."""
    rng = np.random.default_rng(7)
    rows = [(cta, 0, code, edge, 0) for cta in range(12) for code, edge in walk(rng, flat)]
    frame = events(*rows)
    edge, event, key = frame["edge"].to_numpy(), frame["event"].to_numpy(), nesting.lane_keys(frame)
    wanted = by_stack(frame)
    assert len(wanted) == len(frame) // 2
    assert nesting._alternate(edge, event) is flat
    starts = nesting.stretches({c: frame[c].to_numpy() for c in nesting.LANE})
    found = nesting._peeled(edge, event, starts)
    assert found is not None
    for first, last in (found, nesting._nested(key, edge, event)):
        assert set(zip(first.tolist(), last.tolist(), strict=True)) == wanted
    assert positions(frame) == wanted
    for _ in range(20):
        lost = frame.drop(index=rng.choice(len(frame), 5, replace=False)).reset_index(drop=True)
        first, last = nesting._nested(nesting.lane_keys(lost), lost["edge"].to_numpy(), lost["event"].to_numpy())
        assert set(zip(first.tolist(), last.tolist(), strict=True)) == by_stack(lost)


def test_an_edge_that_is_neither_begin_nor_end_is_an_error() -> None:
    good = events((0, 0, 0, 0, 5), (0, 0, 0, 1, 9))
    with pytest.raises(DataError, match="edge 2 is not declared"):
        sp.spans(good.assign(edge=[0, 2]), lanes((0, 0, 0, 0)), ROLES, EVENTS)
