"""Interval algebra: union not sum, waiting is not working, hidden and exposed against a picture worked out by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from attribution.analyze import active, chunks, overlap, tails
from attribution.analyze.active import Active, union_ns
from attribution.errors import DataError

ROLES = ["tma", "math", "topk"]


def spans(*rows: tuple[int, str, int, int, str], sm: int = 0, run: int = 0) -> pd.DataFrame:
    """Rows of (cta, role, begin, end, whom it waits for)."""
    frame = pd.DataFrame(rows, columns=["cta", "role", "begin_ns", "end_ns", "waits_for"])
    return frame.assign(
        run=run,
        sm=sm,
        wait=frame["waits_for"] != "",
        role=pd.Categorical(frame["role"], ROLES),
        event="x",
        waits_for=pd.Categorical(frame["waits_for"], ["", *ROLES]),
    )


def test_union_not_sum() -> None:
    """[(0,10),(2,4),(3,9),(12,15)] is busy 13, whatever the order."""
    begin, end = np.array([12, 2, 0, 3]), np.array([15, 4, 10, 9])
    assert union_ns(np.zeros(4, np.int64), begin, end, 1).tolist() == [13]
    assert union_ns(np.array([2, 2, 0]), np.array([0, 5, 0]), np.array([5, 9, 4]), 3).tolist() == [4, 0, 9]
    assert union_ns(*np.zeros((3, 0), np.int64), 2).tolist() == [0, 0]


def test_union_agrees_with_counting_on_a_line() -> None:
    rng = np.random.default_rng(1)
    group = rng.integers(0, 5, 300)
    begin = rng.integers(0, 1000, 300)
    end = begin + rng.integers(0, 9, 300)
    sizes = union_ns(group, begin, end, 5)
    for key, size in enumerate(sizes):
        line = np.zeros(1100, dtype=bool)
        for b, e in zip(begin[group == key], end[group == key], strict=True):
            line[b:e] = True
        assert size == line.sum()


def test_waiting_is_not_working() -> None:
    """An interval 0-100 that contains a wait 10-95 is 15 busy; a wait beside it adds nothing."""
    table = overlap.roles(spans((0, "math", 0, 100, ""), (0, "math", 10, 95, "topk"), (0, "math", 100, 120, "tma")))
    math = table.set_index("role").loc["math"]
    assert math["processing_ns"] == 15
    assert math["wait_free_ns"] == 85
    assert math["wait_ready_ns"] == 20
    assert math["busy_fraction"] == 15 / 35


def test_whom_a_role_waits_for_is_named() -> None:
    """Math for TopK inside work and for TMA beside it, TopK for Math on two CTAs; work is no wait, and nobody may be named."""
    found = overlap.waits(
        spans(
            (0, "math", 0, 100, ""), (0, "math", 10, 95, "topk"), (0, "math", 100, 120, "tma"), (0, "topk", 0, 7, "math"),
            (1, "topk", 0, 4, "math"),
        )
    )  # fmt: skip
    assert found.to_numpy().tolist() == [["math", "tma", 20], ["math", "topk", 85], ["topk", "math", 11]]
    assert overlap.waits(spans((0, "math", 0, 100, ""))).empty


def test_hidden_and_exposed_time_of_each_role() -> None:
    """Math 0-10 and 10-20, TopK of the first batch 10-16 (hidden), of the second 20-26 (exposed, in the drain)."""
    table = overlap.roles(
        spans(
            (0, "math", 0, 10, ""),
            (0, "math", 10, 20, ""),
            (0, "topk", 0, 10, "math"),
            (0, "topk", 10, 16, ""),
            (0, "topk", 16, 20, "math"),
            (0, "topk", 20, 26, ""),
        )
    ).set_index("role")
    assert table.loc["topk", ["processing_ns", "hidden_ns", "exposed_ns", "drain_ns"]].tolist() == [
        12,
        6,
        6,
        6,
    ]
    assert table.loc["math", ["processing_ns", "hidden_ns", "exposed_ns", "fill_ns"]].tolist() == [
        20,
        6,
        14,
        10,
    ]
    assert table.loc["topk", "busy_fraction"] == 12 / (12 + 14)
    # Of Math no wait was traced: whether it was busy all the time is not known.
    assert np.isnan(table.loc["math", "busy_fraction"])


def test_roles_of_other_ctas_hide_nothing() -> None:
    table = overlap.roles(spans((0, "math", 0, 10, ""), (1, "topk", 0, 10, ""))).set_index("role")
    assert table.loc["topk", "exposed_ns"] == 10
    assert table.loc["math", "hidden_ns"] == 0


def test_hidden_work_that_is_made_faster_turns_into_waiting() -> None:
    """TopK takes 6 or 3 behind Math's 10: processing plus waiting is conserved, the end of the CTA is not moved."""

    def cta(topk: int) -> pd.DataFrame:
        rows = [(0, "topk", 0, 10, "math")]
        for i in range(4):
            rows += [
                (0, "math", 10 * i, 10 * i + 10, ""),
                (0, "topk", 10 * i + 10, 10 * i + 10 + topk, ""),
            ]
            if i < 3:
                rows.append((0, "topk", 10 * i + 10 + topk, 10 * i + 20, "math"))
        return spans(*sorted(rows, key=lambda r: (ROLES.index(r[1]), r[2])))

    slow, fast = (overlap.roles(cta(t)).set_index("role").loc["topk"] for t in (6, 3))
    assert slow["processing_ns"] - fast["processing_ns"] == 12
    assert fast["wait_ready_ns"] - slow["wait_ready_ns"] == 9
    assert (slow["exposed_ns"], fast["exposed_ns"]) == (6, 3)


def test_overlap_agrees_with_counting_on_a_line() -> None:
    """Random disjoint lanes of many CTAs and runs, against a bitmap."""
    rng = np.random.default_rng(2)
    rows, line = [], {}
    for run in range(2):
        for cta in range(6):
            for role in ROLES:
                time, bits = 0, np.zeros(400, dtype=bool)
                for _ in range(10):
                    begin = time + int(rng.integers(0, 12))
                    time = begin + int(rng.integers(1, 20))
                    rows.append((run, cta, role, begin, time))
                    bits[begin:time] = True
                line[run, cta, role] = bits
    frame = pd.DataFrame(rows, columns=["run", "cta", "role", "begin_ns", "end_ns"])
    frame = frame.assign(role=pd.Categorical(frame["role"], ROLES), wait=False, sm=0)
    frame["waits_for"] = pd.Categorical([""] * len(frame))
    table = overlap.roles(frame).set_index(["run", "role"])
    for run in range(2):
        for role in ROLES:
            hidden = 0
            for cta in range(6):
                others = np.logical_or.reduce([line[run, cta, r] for r in ROLES if r != role])
                hidden += int((line[run, cta, role] & others).sum())
            assert table.loc[(run, role), "hidden_ns"] == hidden


def rows(*where: tuple[int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(where, columns=["cta", "sm", "rows"]).assign(run=0)


def test_sms_come_from_the_device_and_idle_ones_are_rows() -> None:
    """CTAs on SMs 0, 5, 0, 5 of a device of 8: two SMs with work, six with none."""
    work = pd.concat([spans((c, "math", 10 * c, 10 * c + 5, ""), sm=(0, 5)[c % 2]) for c in range(4)])
    table = tails.per_sm(work, rows((0, 0, 2), (1, 5, 2), (2, 0, 2), (3, 5, 2)), 8)
    assert table["rows"].tolist() == [4, 0, 0, 0, 0, 4, 0, 0]
    assert table["busy_ns"].tolist() == [10, 0, 0, 0, 0, 10, 0, 0]
    assert table["finish_ns"].tolist() == [25, 0, 0, 0, 0, 35, 0, 0]
    short = tails.summary(table).iloc[0]
    assert (short["idle_sms"], short["busiest_sm_rows"], short["sms_with_it"], short["waves"]) == (
        6,
        4,
        2,
        2,
    )
    assert short["tail_ns"] == 35 - 60 / 8


def test_64_ctas_on_78_sms_leave_14_without_rows() -> None:
    work = pd.concat([spans((c, "math", 0, 5, ""), sm=c) for c in range(64)])
    table = tails.per_sm(work, rows(*((c, c, 1) for c in range(64))), 78)
    assert len(table) == 78
    assert (table["rows"] == 0).sum() == 14


def test_an_sm_beyond_the_device_is_an_error() -> None:
    with pytest.raises(DataError, match="SM id 9 on a device of 8 SMs"):
        tails.per_sm(spans((0, "math", 0, 1, ""), sm=9), rows((0, 9, 1)), 8)


def nested(ctas: int, batches: int, seed: int, cross: bool) -> pd.DataFrame:
    """Lanes of work with waits inside, some touching the work's edges; with `cross`, waits that also reach beyond it."""
    rng = np.random.default_rng(seed)
    made = []
    for cta in range(ctas):
        for role in ROLES:
            time = 0
            for _ in range(batches):
                begin = time + int(rng.integers(0, 5))
                marks = begin + np.sort(rng.integers(0, 60, 4))
                time = begin + 60
                made.append((cta, role, begin, time, ""))
                late = int(rng.integers(1, 9)) if cross and rng.random() < 0.3 else 0
                made += [
                    (cta, role, int(marks[0]), int(marks[1]), "math"),
                    (cta, role, int(marks[2]), int(marks[3]) + late, "math"),
                ]
    return spans(*made)


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("chunk", [16, 1 << 17])
def test_nested_waits_agree_with_counting_on_a_line(cross: bool, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of taking waits out of work, in one chunk and in many, and in any order of the spans."""
    for module in (overlap, active, chunks):
        monkeypatch.setattr(module, "CHUNK", chunk)
    frame = nested(5, 6, seed=4, cross=cross)
    line: dict[tuple[int, str], np.ndarray] = {}
    for cta, role, begin, end, wait in frame[["cta", "role", "begin_ns", "end_ns", "wait"]].itertuples(index=False):
        counts = line.setdefault((cta, role), np.zeros((2, 800), dtype=int))
        counts[int(wait), begin:end] += 1
    busy = {lane: (counts[0] > 0) & (counts[1] == 0) for lane, counts in line.items()}
    for order in (np.arange(len(frame)), np.random.default_rng(0).permutation(len(frame))):
        table = overlap.roles(frame.iloc[order]).set_index("role")
        for role in ROLES:
            others = [np.logical_or.reduce([busy[c, r] for r in ROLES if r != role]) for c in range(5)]
            assert table.loc[role, "processing_ns"] == sum(busy[c, role].sum() for c in range(5))
            assert table.loc[role, "hidden_ns"] == sum((busy[c, role] & others[c]).sum() for c in range(5))
        union = np.logical_or.reduce(list(busy.values()))
        per_sm = tails.per_sm(frame.iloc[order], rows((0, 0, 5)), 1)
        assert per_sm["busy_ns"].tolist() == [union.sum()]
        assert per_sm["finish_ns"].tolist() == [frame.loc[~frame["wait"], "end_ns"].max()]


def test_busy_time_of_an_sm_has_no_waits_in_it() -> None:
    """Case 10 on an SM: 0-100 with a wait 10-95 is busy 15."""
    table = tails.per_sm(spans((0, "math", 0, 100, ""), (0, "math", 10, 95, "topk")), rows((0, 0, 1)), 1)
    assert table[["busy_ns", "finish_ns"]].to_numpy().tolist() == [[15, 100]]


def test_a_piece_ends_where_a_cta_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "CHUNK", 4)
    cta, run = np.repeat([0, 1, 2, 0], [2, 1, 2, 1]), np.repeat([0, 1], [5, 1])
    starts = np.array([0, 4, 6, 9, 12, 15])  # of lanes
    none = np.zeros(17, np.int64)
    when = Active(run, cta, cta, np.array([0, 1, 0, 0, 1, 0]), starts, none, none)
    assert [(c.start, c.stop) for c in overlap._pieces(when)] == [(0, 2), (2, 3), (3, 5), (5, 6)]


def test_the_fill_and_drain_of_ctas_with_one_role_each_are_their_own() -> None:
    """Lanes of a CTA with two roles, and of two with one."""
    cta = np.array([0, 0, 1, 2])
    filled, drained = overlap._phases(cta, np.array([0, 5, 20, 50]), np.array([10, 15, 30, 60]), 2)
    assert filled.tolist() == [5, 20, 50]
    assert drained.tolist() == [10, 30, 60]
