"""Scope cupti on a real GPU: replays of a graph are one timeline, and one that does something else is noticed.

Skipped where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from attribution.analyze.ledger import operator_account
from attribution.errors import DataError
from attribution.launch import Call, Operator
from attribution.load import load_kernel, load_variants
from attribution.measure import cupti, watch
from attribution.measure.jobfile import Options
from attribution.measure.prepared import Prepared
from attribution.measure.probe import Gpu, find
from attribution.measure.profiled import cupti_rows
from attribution.plan import Overrides, plan

GPU = find()
pytestmark = pytest.mark.skipif(not isinstance(GPU, Gpu), reason=str(GPU))
SAMPLES, TICK_NS = 6, 32.0
STAGES = ["sample_gather", "sample_scores", "threshold", "main", "merge", "repair"]


def test_stages_and_operator_of_index_topk_are_of_one_replay(root: Path, tmp_path: Path) -> None:
    """`full` of launches only, and an unfused pipeline whose selection is many kernels of torch."""
    kernel = load_kernel(root, "index_topk")
    variants = load_variants(root, kernel)
    sms = {"sms": GPU.sms, "ctas": GPU.sms} if isinstance(GPU, Gpu) else {}
    planned = plan(kernel, variants, ["unfused"], Overrides({"q": 132, "n": 8192}, {}, sms, rounds=1))
    options = Options(scopes=("event", "cupti"), samples=SAMPLES, traced_rounds=0)
    made = watch.execute(planned, kernel, variants, tmp_path / "a", lambda *_: None, options)
    assert made.manifest["measuring"]["skipped"] == []
    runs, times = made.table("runs"), made.table("times").astype({"scope": str, "stage": str, "flags": str})
    assert set(runs["status"]) == {"ok"}
    for arm, stages in (("full", STAGES), ("unfused", ["sample_gather", "main", "select"])):
        mine = times[times["run"].isin(runs.loc[runs["arm"] == arm, "run"])]
        eager, found = (mine[mine["scope"] == scope] for scope in ("event", "cupti"))
        each = found.pivot_table(index="sample", columns="stage", values="time_ns")
        assert set(each) == set(eager["stage"]) == {*stages, "operator"}
        assert (each > 0).all(axis=None)
        assert len(each) == SAMPLES
        assert (each["operator"] >= each[stages].sum(axis=1)).all()
        assert set(found["flags"]) == {"clock-unknown"}
    tables = {"runs": runs, "times": times, "counters": made.table("counters")}
    counters = tables["counters"].astype({"metric": str})
    base = runs.loc[runs["arm"] == "full", "run"]
    chain = counters[(counters["metric"] == cupti.CHAIN) & counters["run"].isin(base)]
    assert chain["value"].tolist() == [len(STAGES)]  # one launch each, one behind the other
    account = operator_account(tables, "full", "cupti", TICK_NS).set_index("item")
    assert account.loc["gaps", "verdict"] == "measured"
    assert 0 < account.loc["gaps", "time_ns"] <= account.loc["gaps", "high_ns"] < account.loc["operator", "time_ns"] / 2


def replayed(root: Path, folder: Path, *steps: Call) -> dict[str, list[float]]:
    """Stage -> ns of each replay."""
    prepared = Prepared(load_kernel(root, "hello"), Operator(steps, {}), None)
    out: dict[str, list[float]] = {}
    for row in cupti_rows([prepared], SAMPLES, folder / "trace.json"):
        out.setdefault(row.stage, []).append(row.time_ns)
    return out


@pytest.fixture
def x() -> Any:
    import torch

    return torch.zeros(1 << 20, device="cuda")


def capturing() -> bool:
    import torch

    return torch.cuda.is_current_stream_capturing()


FAULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "lost": (lambda x: None if capturing() else x.add_(1.0), r"kernel 1 of replay 0 is missing, and step 1 \(after\)"),
    "one more": (lambda x: (x.add_(1.0), capturing() and x.mul_(2.0)), r"holds 3 kernels .* launched 2: kernel 2, "),
    "another": (lambda x: x.mul_(2.0) if capturing() else x.add_(1.0), r"kernel 1 of replay 0 is .*, and step 1 \(after\)"),
    "another size": (
        lambda x: (x[:1024] if capturing() else x).add_(1.0), r"kernel 1 of replay 0 is .*, and step 1 \(after\)"
    ),
    "swapped": (
        lambda x: (x.mul_(2.0), x.add_(1.0)) if capturing() else (x.add_(1.0), x.mul_(2.0)), r"kernel 1 of replay 0 is"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_a_graph_that_does_something_else_than_its_steps(
    root: Path, tmp_path: Path, x: Any, fault: str
) -> None:
    after, sentence = FAULTS[fault]
    with pytest.raises(DataError, match=sentence):
        replayed(root, tmp_path, Call("main", lambda: x.sin_()), Call("after", lambda: after(x)))


def test_a_fill_of_a_graph_counts_to_its_torch_call(root: Path, tmp_path: Path, x: Any) -> None:
    import torch
    from cuda.bindings import driver

    big = torch.empty(1 << 29, dtype=torch.uint8, device="cuda")

    def clear() -> None:
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        driver.cuMemsetD8Async(driver.CUdeviceptr(big.data_ptr()), 0, big.nbytes, stream)
        x[:32].cos_()

    found = replayed(root, tmp_path, Call("clear", clear))
    assert min(found["clear"]) > big.nbytes / 5e3  # ns at 5 TB/s, which the card cannot write
    assert all(a >= b for a, b in zip(found["operator"], found["clear"], strict=True))


def test_planted_stages_side_by_side_are_flagged(root: Path, tmp_path: Path) -> None:
    """The first step forks a long kernel off to another stream, the second one runs beside it and joins them."""
    import torch

    side = torch.cuda.Stream()

    def fork() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(400_000)
        torch.cuda._sleep(40_000)

    def join() -> None:
        torch.cuda._sleep(40_000)
        torch.cuda.current_stream().wait_stream(side)

    prepared = Prepared(load_kernel(root, "hello"), Operator((Call("long", fork), Call("short", join)), {}), None)
    rows = cupti_rows([prepared], SAMPLES, tmp_path / "trace.json")
    assert len(rows) == SAMPLES * 3
    assert all(cupti.OVERLAP in row.flags and row.overlap_ns > cupti.STAMPS_NS for row in rows)
    assert {row.chain for row in rows} == {0}
    each = pd.DataFrame(rows).pivot_table(index="sample", columns="stage", values="time_ns")
    assert (each["operator"] >= each["long"] + each["short"]).all()
    assert (each["short"] < each["long"] / 2).all()  # most of it lies beside the long one, whose time it is
