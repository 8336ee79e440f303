"""The placement engine against published row counts and against schedules worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from attribution.schedule import Link, Pipeline, Role, place, rows_per_sm

# Facts of a published H20 case study: 78 SMs, Q = 512; persistent CTAs, BLOCK_Q -> rows on the busiest SM.
PUBLISHED = [(156, 2, 8), (128, 2, 8), (96, 2, 10), (156, 1, 7), (128, 1, 8), (96, 1, 10)]

CHAIN = Pipeline(
    (
        Role("tma", "load", wait_free="stage_free"),
        Role("math", "score", wait_ready="stage_full", wait_free="slot_free"),
        Role("topk", "select", wait_ready="slot_ready"),
    ),
    (Link(2, "tile"), Link(2, "batch")),
)


@pytest.mark.parametrize(("ctas", "block_q", "busiest"), PUBLISHED)
def test_published_rows_on_the_busiest_sm(ctas: int, block_q: int, busiest: int) -> None:
    rows = rows_per_sm(512, block_q, ctas, 78)
    assert rows.max() == busiest
    assert rows.sum() == 512


def test_published_number_of_busiest_sms() -> None:
    assert (rows_per_sm(512, 2, 156, 78) == 8).sum() == 22
    assert (rows_per_sm(512, 1, 156, 78) == 7).sum() == 44


def test_sms_without_work_are_there_with_zero_rows() -> None:
    rows = rows_per_sm(64, 1, 64, 78)
    assert len(rows) == 78
    assert (rows == 0).sum() == 14


def spans(placed, role: int, event: str) -> list[tuple[int, int, int]]:
    mine = (placed.role == role) & (placed.event == event)
    return list(zip(placed.batch[mine], placed.begin_ns[mine], placed.end_ns[mine], strict=True))


def test_two_slots_hide_selection_and_one_slot_exposes_it() -> None:
    """Two batches, Math 10 each, TopK 6 each: with one slot Math waits 6 before its second batch."""
    times = [[[1], [1]], [[10], [10]], [[6], [6]]]
    double = place(CHAIN, times, 1, 1)
    single = place(Pipeline(CHAIN.roles, (Link(2, "tile"), Link(1, "batch"))), times, 1, 1)
    assert double.makespan_ns == 1 + 10 + 10 + 6
    assert single.makespan_ns == 1 + 10 + 6 + 10 + 6
    assert spans(double, 1, "slot_free") == []
    assert spans(single, 1, "slot_free") == [(1, 11, 17)]
    assert spans(double, 2, "slot_ready") == [(0, 0, 11), (1, 17, 21)]


def test_one_stage_serialises_loads_and_math() -> None:
    """Three tiles, load 2, Math 5: one stage makes every load wait for the Math of the tile before."""
    times = [[[2, 2, 2]], [[5, 5, 5]], [[0]]]
    one = place(Pipeline(CHAIN.roles, (Link(1, "tile"), Link(2, "batch"))), times, 1, 1)
    two = place(CHAIN, times, 1, 1)
    assert one.makespan_ns == 3 * (2 + 5)
    assert two.makespan_ns == 2 + 3 * 5


def test_a_wait_inside_work_is_a_span_of_its_own() -> None:
    times = [[[2, 9]], [[5, 5]], [[1]]]
    placed = place(CHAIN, times, 1, 1)
    assert spans(placed, 1, "score") == [(0, 2, 16)]
    assert spans(placed, 1, "stage_full") == [(0, 0, 2), (0, 7, 11)]
    per_tile = place(CHAIN, times, 1, 1, per_tile=True)
    assert spans(per_tile, 1, "score") == [(0, 2, 7), (0, 11, 16)]


def test_a_later_wave_goes_to_the_sm_that_frees_first() -> None:
    """SM 0 is busy for 9, SM 1 for 4: CTA 2 starts on SM 1 at 4."""
    placed = place(Pipeline((Role("math", "score"),)), [[[9], [4], [3]]], 3, 2)
    assert placed.cta_sm.tolist() == [0, 1, 1]
    assert placed.cta_begin_ns.tolist() == [0, 0, 4]
    assert placed.makespan_ns == 9


def test_batches_go_round_the_ctas() -> None:
    placed = place(Pipeline((Role("math", "score"),)), [[[1]] * 7], 3, 3)
    assert [placed.batch[placed.cta == c].tolist() for c in range(3)] == [[0, 3, 6], [1, 4], [2, 5]]


def test_more_ctas_than_batches_leaves_ctas_without_spans() -> None:
    placed = place(Pipeline((Role("math", "score"),)), [[[5]]], 4, 2)
    assert placed.makespan_ns == 5
    assert np.unique(placed.cta).tolist() == [0]


def test_nothing_overlaps_on_one_role_and_no_time_is_lost() -> None:
    """Random task times: per CTA and role, work never overlaps, and busy plus waiting covers up to its last end."""
    rng = np.random.default_rng(0)
    tiles = rng.integers(1, 6, 20)
    times = [
        [rng.integers(1, 50, t).tolist() for t in tiles],
        [rng.integers(1, 50, t).tolist() for t in tiles],
        [[int(rng.integers(1, 200))] for _ in tiles],
    ]
    placed = place(CHAIN, times, 3, 2, per_tile=True)
    for cta in range(3):
        origin = placed.cta_begin_ns[cta]
        for role in range(3):
            mine = np.flatnonzero((placed.cta == cta) & (placed.role == role))
            mine = mine[np.argsort(placed.begin_ns[mine])]
            edges = np.concatenate([[origin], placed.end_ns[mine]])
            assert (placed.begin_ns[mine] == edges[:-1]).all()


def test_places_that_no_cta_can_take_cost_nothing() -> None:
    """A million CTAs on each of a million SMs would be 10**12 places; two CTAs need two."""
    placed = place(Pipeline((Role("math", "score"),), resident=1 << 20), [[[1], [1]]], 2, 1 << 20)
    assert placed.cta_sm.tolist() == [0, 1]
