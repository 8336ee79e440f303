"""Kernels of a range under its three rules; crossing ranges abstain; nothing depends on a name."""

import numpy as np
import pandas as pd
import pytest

from attribution.errors import InputError
from attribution.ingest import ranges as r
from attribution.ingest.device_events import kernel_table, range_table


def kernels(*rows) -> pd.DataFrame:
    """(name, begin, end, launch or None, thread)"""
    n = len(rows)
    names, begin, end, launch, thread = map(list, zip(*rows, strict=True))
    return kernel_table(
        "f", [], name=names, begin=np.array(begin), end=np.array(end), device=[0] * n, context=[1] * n, stream=[7] * n,
        process=[1] * n, correlation=list(range(n)), launch_begin=[-1 if t is None else t for t in launch],
        launched=[t is not None for t in launch], launch_thread=thread, graph=[-1] * n, grid=[""] * n, block=[""] * n,
    )  # fmt: skip


def ranges(*rows) -> pd.DataFrame:
    """(name, begin, end, thread)"""
    names, begin, end, thread = map(list, zip(*rows, strict=True))
    n = len(rows)
    return range_table(
        "f", name=names, begin=np.array(begin), end=np.array(end), thread=thread, kind=["push_pop"] * n, domain=[""] * n
    )


def times(ks, rs, name) -> dict[str, tuple[int, int]]:
    table = r.range_times(ks, rs)
    mine = table[table["range_name"] == name]
    return {str(row.rule): (row.kernels, row.time_ns) for row in mine.itertuples()}


def test_the_flush_is_not_the_kernel() -> None:
    """A flush launched before the range starts to run inside it, and ends long after."""
    ks = kernels(("flush", 105, 58_105, 90, "1/1"), ("k", 58_200, 62_200, 110, "1/1"))
    rs = ranges(("timed", 100, 70_000, "1/1"))
    assert times(ks, rs, "timed")["launched_by_thread"] == (1, 4000)
    assert times(ks, rs, "timed")["running_in"] == (2, 62_000)  # another rule, another answer, another name


def test_a_kernel_is_kept_whatever_its_name() -> None:
    ks = kernels(("vectorized_FillFunctor", 120, 160, 110, "1/1"), ("memset_like_flush_l2", 170, 180, 111, "1/1"))
    assert times(ks, ranges(("timed", 100, 200, "1/1")), "timed")["launched_by_thread"] == (2, 50)


def test_threads_and_processes() -> None:
    ks = kernels(("a", 10, 20, 5, "1/1"), ("b", 30, 50, 6, "1/2"), ("c", 60, 90, 7, "2/1"), ("d", 95, 99, None, ""))
    seen = times(ks, ranges(("step", 0, 40, "1/1")), "step")
    assert seen == {"launched_by_thread": (1, 10), "launched_by_any_thread": (2, 30), "running_in": (1, 10)}
    assert set(r.range_times(ks, ranges(("step", 0, 40, "1/1"))).set_index("rule")["outside"].items()) == {
        ("launched_by_thread", 1), ("launched_by_any_thread", 1), ("running_in", 0),
    }  # fmt: skip


def test_crossing_ranges_abstain() -> None:
    ks = kernels(("k", 20, 30, 15, "1/1"), ("alone", 40, 50, 2, "1/1"))
    rs = ranges(("first", 0, 18, "1/1"), ("second", 10, 60, "1/1"))
    owners = r.owners(ks, rs, "launched_by_thread").set_index("kernel")
    assert (owners.loc[0, "range"], owners.loc[0, "why"]) == (-1, r.CONTESTED)
    assert owners.loc[1, "range"] == 0
    table = r.range_times(ks, rs)
    assert list(table[table["rule"] == "launched_by_thread"]["contested"]) == [1, 1]


def test_the_same_interval_on_two_threads_abstains() -> None:
    ks = kernels(("k", 20, 30, 15, "1/1"))
    rs = ranges(("a", 0, 18, "1/1"), ("b", 0, 18, "1/2"))
    assert list(r.owners(ks, rs, "launched_by_any_thread")["why"]) == [r.CONTESTED]
    assert list(r.owners(ks, rs, "launched_by_thread")["range"]) == [0]


def test_nested_ranges_own_by_the_innermost() -> None:
    ks = kernels(
        ("k", 20, 30, 15, "1/1"), ("out", 40, 41, 30, "1/1"), ("none", 90, 91, 99, "1/1"), ("late", 95, 96, None, "")
    )
    rs = ranges(("outer", 0, 50, "1/1"), ("inner", 10, 18, "1/1"))
    assert list(r.owners(ks, rs, "launched_by_thread")["range"]) == [1, 0, -1, -1]
    assert list(r.owners(ks, rs, "launched_by_thread")["why"]) == ["", "", r.OUTSIDE, r.NO_LAUNCH]
    assert times(ks, rs, "outer")["launched_by_thread"] == (2, 11)
    assert times(ks, rs, "inner")["launched_by_thread"] == (1, 10)


def test_contested_against_all_pairs() -> None:
    rng = np.random.default_rng(11)
    for _ in range(60):
        begin = rng.integers(0, 30, 6)
        end = begin + rng.integers(1, 20, 6)
        rs = ranges(*[(f"r{i}", b, e, "1/1") for i, (b, e) in enumerate(zip(begin, end, strict=True))])
        at = rng.integers(0, 45, 8)
        ks = kernels(*[("k", t + 1, t + 2, int(t), "1/1") for t in np.sort(at)])
        spans = list(zip(rs["begin_ns"], rs["end_ns"], strict=True))
        for row, t in zip(r.owners(ks, rs, "launched_by_thread").itertuples(), np.sort(at), strict=True):
            mine = [(b, e) for b, e in spans if b <= t <= e]
            crossing = any(a[0] < b[0] and a[1] < b[1] for a in mine for b in mine)
            assert (row.why == r.CONTESTED) == crossing


def test_unknown_rule() -> None:
    with pytest.raises(InputError, match="launched_by_thread"):
        r.owners(kernels(("k", 1, 2, 0, "1/1")), ranges(("a", 0, 1, "1/1")), "by_name")
