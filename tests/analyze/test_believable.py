"""A trace that contradicts itself is refused: a lost record, a mislabelled SM; equal stamps have no order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from planted import traced

from attribution.analyze.believable import check_placement, check_records, stamp_order
from attribution.errors import DataError

ROLES = ("math", "topk")


def test_a_whole_trace_passes() -> None:
    tables = traced()
    check_records(tables["events"], tables["lanes"], ROLES)
    check_placement(tables["lanes"], tables["rows"], 3)


def test_a_lost_pair_of_records_is_caught_though_all_events_pair() -> None:
    tables = traced()
    events = tables["events"].drop(index=[0, 1])
    with pytest.raises(DataError, match=r"1 lanes do not hold.*CTA 0, role math: 6 of 8"):
        check_records(events, tables["lanes"], ROLES)


def test_a_lane_that_lost_all_records_is_caught() -> None:
    tables = traced()
    gone = (tables["events"]["cta"] == 3) & (tables["events"]["role"] == 1)
    with pytest.raises(DataError, match=r"CTA 3, role topk: 0 of 8"):
        check_records(tables["events"][~gone], tables["lanes"], ROLES)
    with pytest.raises(DataError, match=r"0 of 8"):
        check_records(tables["events"].iloc[:0], tables["lanes"], ROLES)


def test_a_full_lane_keeps_its_capacity_only() -> None:
    tables = traced()
    lanes = tables["lanes"].assign(attempts=1200, capacity=8)
    check_records(tables["events"], lanes, ROLES)


def test_a_mislabelled_sm_is_caught() -> None:
    tables = traced()
    lanes = tables["lanes"].copy()
    lanes.loc[(lanes["cta"] == 2) & (lanes["role"] == 1), ["sm_begin", "sm_end"]] = 0
    with pytest.raises(DataError, match=r"roles of CTA 2 \(run 0\) began on SMs 0 and 2"):
        check_placement(lanes, tables["rows"], 3)
    whole = tables["lanes"].copy()
    whole.loc[whole["cta"] == 2, ["sm_begin", "sm_end"]] = 0
    with pytest.raises(DataError, match=r"CTA 2 \(run 0\) is on SM 0 in its trace and on SM 2"):
        check_placement(whole, tables["rows"], 3)


def refused(seed: int) -> bool:
    """One lane or one CTA, at random, says another SM than the one that it ran on: is the trace refused?"""
    rng = np.random.default_rng(seed)
    tables = traced(ctas=6)
    lanes = tables["lanes"].copy()
    cta = int(rng.integers(6))
    wrong = (cta + int(rng.integers(1, 3))) % 3
    lanes.loc[(lanes["cta"] == cta) & ((lanes["role"] == 1) | (seed % 2 == 0)), ["sm_begin", "sm_end"]] = wrong
    try:
        check_placement(lanes, tables["rows"], 3)
    except DataError as error:
        return f"CTA {cta}" in str(error)
    return False


def test_any_mislabelled_sm_is_refused() -> None:
    assert all(refused(seed) for seed in range(20))


def test_an_sm_that_the_device_does_not_have_is_caught() -> None:
    tables = traced()
    with pytest.raises(DataError, match="SM id 2 on a device of 2 SMs"):
        check_placement(tables["lanes"], tables["rows"], 2)


def test_equal_stamps_of_two_sms_have_no_order() -> None:
    """Case 5; in one lane the order of writing decides."""
    events = pd.DataFrame({"run": 0, "cta": [0, 0, 1, 1], "role": 0, "time_ns": np.array([1024, 1024, 1024, 3072])})
    assert stamp_order(events, [0, 1, 0, 2, 3], [2, 0, 1, 3, 0]).tolist() == [0, 1, -1, -1, 1]
