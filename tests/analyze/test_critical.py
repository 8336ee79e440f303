"""The critical path: conserved, through the right roles, across CTAs of one SM."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from attribution.analyze import critical
from attribution.declare import Event
from attribution.errors import DataError
from attribution.schedule import Link, Pipeline, Role, place

ROLES = ["math", "topk"]
PIPELINE = Pipeline(
    (Role("math", "score", wait_free="slot_free"), Role("topk", "select", wait_ready="slot_ready")), (Link(2, "batch"),)
)
DECLARED = [
    Event("slot_free", "math", "topk"), Event("score", "math"), Event("slot_ready", "topk", "math"), Event("select", "topk"),
]  # fmt: skip


def placed(math: int, topk: int, batches: int = 6, ctas: int = 2, sms: int = 1) -> pd.DataFrame:
    """Spans of a two-role kernel with given times per batch, as the schedule places them."""
    found = place(PIPELINE, [[[math]] * batches, [[topk]] * batches], ctas, sms)
    names = [e.name for e in DECLARED]
    codes = np.array([names.index(e) for e in found.event], dtype=np.int8)
    return pd.DataFrame(
        {
            "run": 0, "cta": found.cta, "sm": found.cta_sm[found.cta],
            "role": pd.Categorical.from_codes(found.role.astype(np.int8), ROLES),
            "event": found.event, "wait": np.array([e.waits_for is not None for e in DECLARED])[codes],
            "waits_for": pd.Categorical([DECLARED[c].waits_for or "" for c in codes]),
            "arg": found.batch, "begin_ns": found.begin_ns, "end_ns": found.end_ns, "migrated": False,
        }
    )  # fmt: skip


def contiguous(found: pd.DataFrame, first: int, last: int) -> None:
    assert found["begin_ns"].iloc[0] == first
    assert found["end_ns"].iloc[-1] == last
    assert (found["begin_ns"].to_numpy()[1:] == found["end_ns"].to_numpy()[:-1]).all()


def test_a_hidden_consumer_is_on_the_path_in_the_drain_only() -> None:
    trace = placed(math=100, topk=20)
    found = critical.path(trace)
    contiguous(found, 0, int(trace["end_ns"].max()))
    sums = critical.summary(found).set_index("role")["time_ns"]
    # Two CTAs one after the other: three batches of Math each, and one TopK that nothing hides.
    assert sums.to_dict() == {"math": 600, "topk": 40}


def test_a_slow_consumer_takes_the_path_and_the_fill_stays() -> None:
    trace = placed(math=20, topk=100)
    found = critical.path(trace)
    contiguous(found, 0, int(trace["end_ns"].max()))
    assert critical.summary(found).set_index("role")["time_ns"].to_dict() == {"topk": 600, "math": 40}


def test_every_placement_is_conserved() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        trace = placed(*rng.integers(1, 200, 2), *rng.integers(2, 9, 2), sms=int(rng.integers(1, 4)))
        found = critical.path(trace)
        last = trace[trace["sm"] == found["sm"].iloc[0]]
        contiguous(found, int(last["begin_ns"].min()), int(trace["end_ns"].max()))
        assert not (found["kind"] == "unowned").any()


def test_gaps_are_owned_by_nobody() -> None:
    trace = placed(math=100, topk=20)
    # A second CTA that starts 50 later than the first ended, and a hole in its first Math span's lane.
    late = trace["cta"] == 1
    trace.loc[late, ["begin_ns", "end_ns"]] += 50
    found = critical.path(trace)
    contiguous(found, 0, int(trace["end_ns"].max()))
    assert critical.summary(found).set_index("kind")["time_ns"].to_dict()["idle"] == 50
    shorter = trace.copy()
    hole = (trace["role"] == "math") & (trace["cta"] == 0) & (trace["begin_ns"] == 0)
    shorter.loc[hole, "begin_ns"] = 0
    shorter.loc[hole, "end_ns"] = 70
    found = critical.path(shorter)
    assert found.loc[found["kind"] == "unowned", ["begin_ns", "end_ns"]].to_numpy().tolist() == [[70, 100]]


def test_roles_that_wait_for_each_other_in_one_tick_end() -> None:
    trace = placed(math=100, topk=20, batches=1, ctas=1)
    rows = trace.iloc[[0, 0, 0]].reset_index(drop=True)
    rows["role"] = pd.Categorical(["math", "topk", "math"], categories=ROLES)
    rows["wait"] = [True, True, False]
    rows["waits_for"] = ["topk", "math", ""]
    rows["begin_ns"], rows["end_ns"] = [0, 0, 64], [64, 64, 96]
    found = critical.path(rows)
    contiguous(found, 0, 96)
    assert found.loc[found["kind"] == "unowned", "end_ns"].tolist() == [64]


def test_spans_of_two_runs_are_refused() -> None:
    trace = placed(math=100, topk=20)
    with pytest.raises(DataError, match="one run"):
        critical.path(pd.concat([trace, trace.assign(run=1)]))
