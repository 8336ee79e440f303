"""A range's share of kernel time: nested ranges, other threads, communication, kernels without a launching call."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import planted_prefill

from attribution.analyze.shares import range_share, share_by_request
from attribution.errors import DataError, InputError
from attribution.ingest.ranges import RULES

PUBLISHED = Path(__file__).parents[1] / "data" / "published"


@pytest.fixture
def kernels() -> pd.DataFrame:
    return planted_prefill.trace()["kernels"]


@pytest.fixture
def ranges() -> pd.DataFrame:
    return planted_prefill.trace()["ranges"]


@pytest.mark.parametrize("rule", RULES)
def test_the_planted_share_under_every_rule(kernels: pd.DataFrame, ranges: pd.DataFrame, rule: str) -> None:
    found = range_share(kernels, ranges, "indexer", rule)
    assert found.share_pct == pytest.approx(100 / 3)
    assert (found.part_ns, found.whole_ns, found.busy_ns) == (900_000_000, 2_700_000_000, 2_640_000_000)
    assert found.low_pct == found.high_pct == found.share_pct


def test_each_request_has_its_own_share(kernels: pd.DataFrame, ranges: pd.DataFrame) -> None:
    found = share_by_request(kernels, ranges, "indexer", "launched_by_thread")
    assert [s.share_pct for s in found] == pytest.approx([100 / 3] * 3)
    assert [s.kernels for s in found] == [12] * 3
    with pytest.raises(InputError, match="no range 'whole'"):
        share_by_request(kernels, ranges, "indexer", "launched_by_thread", "whole")


def test_what_is_nested_in_the_part_is_the_parts(kernels: pd.DataFrame, ranges: pd.DataFrame) -> None:
    inner = ranges[ranges["range_name"] == "indexer"].assign(range_name="selection", range=lambda f: f["range"] + 1000)
    inner = inner.assign(begin_ns=inner["begin_ns"] + 1, end_ns=inner["end_ns"] - 1)
    both = pd.concat([ranges.astype(object), inner.astype(object)], ignore_index=True)
    both = both.astype({"range_name": "category", "thread": "category", "begin_ns": "int64", "end_ns": "int64"})
    assert range_share(kernels, both, "indexer", "launched_by_thread").share_pct == pytest.approx(100 / 3)
    assert range_share(kernels, both, "selection", "launched_by_thread").share_pct == pytest.approx(100 / 3)
    assert range_share(kernels, both, "request", "launched_by_thread").share_pct == pytest.approx(100)


def test_communication_is_no_work(kernels: pd.DataFrame, ranges: pd.DataFrame) -> None:
    names = kernels["kernel_name"].astype(str).replace("void attend(float *)", "ncclDevKernel_AllReduce(int)")
    found = range_share(kernels.assign(kernel_name=names.astype("category")), ranges, "indexer", "launched_by_thread")
    assert (found.share_pct, found.communication_ns) == (pytest.approx(100), 1_800_000_000)
    # A name that has the letters elsewhere is a kernel like others.
    names = kernels["kernel_name"].astype(str).replace("void attend(float *)", "void attend_nccl(float *)")
    found = range_share(kernels.assign(kernel_name=names.astype("category")), ranges, "indexer", "launched_by_thread")
    assert found.communication_ns == 0
    # Communication inside the part is not the part's work either.
    names = ["ncclDevKernel(int)" if i == 0 else n for i, n in enumerate(kernels["kernel_name"].astype(str))]
    found = range_share(kernels.assign(kernel_name=pd.Categorical(names)), ranges, "indexer", "launched_by_thread")
    assert found.share_pct == pytest.approx(100 * 870 / 2670)
    alone = kernels.assign(kernel_name=pd.Categorical(["ncclDevKernel(int)"] * len(kernels)))
    with pytest.raises(DataError, match="no work"):
        range_share(alone, ranges, "indexer", "launched_by_thread")


def test_kernels_that_no_range_can_be_given_widen_the_share(kernels: pd.DataFrame, ranges: pd.DataFrame) -> None:
    lost = kernels["begin_ns"] < 30_000_000  # the first chunk's indexer kernel alone: 30 of 2700 ms
    found = range_share(kernels.assign(launched=~lost), ranges, "indexer", "launched_by_thread")
    assert found.low_pct == pytest.approx(100 * 870 / 2700)
    assert found.high_pct == pytest.approx(100 / 3)
    assert found.unplaced_ns == 30_000_000


def test_a_part_that_is_not_there(kernels: pd.DataFrame, ranges: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="no range 'index'; the file has: attention, indexer, request"):
        range_share(kernels, ranges, "index", "launched_by_thread")
    with pytest.raises(DataError, match="no kernel"):
        range_share(kernels.iloc[:0], ranges, "indexer", "launched_by_thread")


def test_the_published_shares_are_those_of_their_columns() -> None:
    table = pd.read_csv(PUBLISHED / "indexer_share.csv")
    computed = 100 * table["indexer_gpu_ms"] / table["noncomm_kernel_ms"]
    assert (computed.round(2) == table["share_pct"]).all()
