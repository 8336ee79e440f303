"""Intervals on a device: union, impossible durations, expected launches."""

import numpy as np
import pandas as pd
import pytest

from attribution.errors import DataError
from attribution.ingest import timeline


def _kernels(spans, *, stream=7, correlation=None, name="k") -> pd.DataFrame:
    begin, end = (np.array(side, np.int64) for side in zip(*spans, strict=True))
    out = pd.DataFrame({"begin_ns": begin, "end_ns": end, "kernel_name": name})
    out = out.assign(process=1, device=0, context=1, stream=stream, graph=-1)
    return out.assign(correlation=np.arange(len(out)) if correlation is None else correlation)


def test_union_is_not_the_sum() -> None:
    spans = np.array([(0, 10), (2, 4), (3, 9), (12, 15)])
    assert timeline.union_ns(spans[:, 0], spans[:, 1]) == 13
    touching = np.array([(5, 6), (0, 5), (5, 5), (100, 101)])
    assert timeline.union_ns(touching[:, 0], touching[:, 1]) == 7
    assert timeline.union_ns(np.empty(0, np.int64), np.empty(0, np.int64)) == 0


def test_union_against_counting() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        begin = rng.integers(0, 60, 12)
        end = begin + rng.integers(0, 20, 12)
        covered = {t for b, e in zip(begin, end, strict=True) for t in range(b, e)}
        assert timeline.union_ns(begin, end) == len(covered)


def test_kernel_over_its_successors_is_flagged() -> None:
    spans = [(i * 101_000, i * 101_000 + 100_000) for i in range(1000)]
    planted = (500 * 101_000 - 500, 500 * 101_000 - 500 + 2_000_000_000)
    flagged = timeline.impossible(_kernels([*spans, planted]))
    assert list(np.flatnonzero(flagged)) == [1000]
    assert not timeline.impossible(_kernels(spans)).any()


def test_equal_stamps_are_not_flagged() -> None:
    spans = [(i // 4 * 2000, i // 4 * 2000 + 2000) for i in range(10_000)]
    assert not timeline.impossible(_kernels(spans)).any()
    rounded = [(0, 3000), (1000, 2000), (2000, 4000)]  # whole us: ends within one tick
    assert not timeline.impossible(_kernels(rounded)).any()
    assert timeline.impossible(_kernels([(0, 9000), (1000, 2000), (2000, 4000)]))[0]


def test_other_streams_graphs_and_neighbours_are_innocent() -> None:
    long_and_short = [(0, 10_000), (1, 5), (7, 9)]
    frame = _kernels(long_and_short)
    assert timeline.impossible(frame)[0]
    assert not timeline.impossible(frame.assign(stream=[1, 2, 2])).any()
    assert not timeline.impossible(frame.assign(correlation=4)).any()  # one graph launch
    assert not timeline.impossible(_kernels([(0, 100), (90, 200), (195, 300)])).any()  # dependent launch
    assert timeline.same_stream_overlaps(_kernels([(0, 100), (90, 200), (195, 300)])) == (2, 15)


def test_expected_launches() -> None:
    frame = _kernels([(i, i + 1) for i in range(49)])
    with pytest.raises(DataError, match="50 launches expected, 49 seen"):
        timeline.expect_launches(frame, "k", 50)
    with pytest.raises(DataError, match="3 launches expected, 0 seen"):
        timeline.expect_launches(frame, "k2", 3)
    with pytest.raises(DataError, match="0 seen"):
        timeline.expect_launches(frame, "k2", 0)  # zero launches have no time, asked for or not
    assert len(timeline.expect_launches(frame, "k", 49)) == 49


def test_tick() -> None:
    assert timeline.tick_ns(np.array([0, 32, 96])) == 32
    assert timeline.tick_ns(np.array([0, 4000, 9_000_000])) == 1000
    assert timeline.tick_ns(np.array([5])) == 1
