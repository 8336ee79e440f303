"""Kernel records to stage times: by correlation, range and the eager execution's order; what is missing is an error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import planted_gpu
import pytest

from attribution.analyze.ledger import operator_account
from attribution.errors import DataError
from attribution.ingest import kineto
from attribution.measure import cupti
from attribution.tables import conform

STEPS = [cupti.Step("sample_scores", True), cupti.Step("main", True), cupti.Step("select", False)]
SCORES, MAIN, RADIX, GATHER = (
    ("scores", 0.0, 2.0), ("main", 3.0, 53.5), ("radix", 54.0, 58.0), ("gather", 57.0, 60.0)
)  # fmt: skip
REPLAY = (SCORES, MAIN, RADIX, GATHER)
"""Name, begin and end in us of each kernel of a replay; the two of `select` overlap by 1 us."""
OWN = (0, 1, 2, 2)
"""Step of each."""
Work = tuple[str, float, float]
SAMPLES = 3


class Trace:
    """Events as the profiler writes them."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.host, self.correlation = 1000.0, 100

    def slice(self, category: str, name: str, ts: float, dur: float, tid: int, **args: Any) -> None:
        event = {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid, "args": args}
        self.events.append(event)

    def call(self, name: str, at: float, device: float, works: Sequence[Work]) -> None:
        """One launching call, and what it made the device do from `device` on."""
        self.correlation += 1
        self.slice("cuda_runtime", name, at, 0.5, tid=7, correlation=self.correlation)
        for what, begin, end in works:
            place = {"device": 0, "stream": 7, "context": 1, "correlation": self.correlation}
            kind = "gpu_memset" if what == "Memset" else "kernel"
            shape = {} if what == "Memset" else {"grid": [len(what), 1, 1], "block": [32, 1, 1]}
            self.slice(kind, what, device + begin, end - begin, tid=3, **place, **shape)

    def range(self, name: str, device: float) -> float:
        """Opens a range of 10 us of the host; returns its begin."""
        self.host += 20.0
        self.slice("user_annotation", name, self.host, 10.0, tid=7)
        # The device-side copy of the range must not be taken for the range.
        self.slice("gpu_user_annotation", name, device, 70.0, tid=3)
        return self.host


def written(
    path: Path,
    replays: Sequence[Sequence[Work]] = (REPLAY,) * SAMPLES,
    eager: Sequence[tuple[int, Work]] = tuple(zip(OWN, REPLAY, strict=True)),
    strays: bool = False,
) -> Path:
    """An eager execution and replays; kernels run long after their ranges.  `strays`: work between the ranges."""
    trace = Trace()
    for step in range(len(STEPS)):
        begin = trace.range(cupti.step_range(step), 9000.0)
        for i, work in enumerate(w for s, w in eager if s == step):
            trace.call("cudaLaunchKernel", begin + 1 + i, 9000.0, [work])
    for sample, works in enumerate(replays):
        device = 10000.0 + 1000.0 * sample
        if strays:
            trace.call("cudaGraphLaunch", trace.host + 15.0, device - 500.0, REPLAY)
        begin = trace.range(cupti.replay_range(sample), device)
        trace.call("cudaGraphLaunch", begin + 1, device, works)
    path.write_text(json.dumps({"traceEvents": trace.events}))
    return path


def rows_of(file: Path, chain: int | None = None) -> list[cupti.Row]:
    return cupti.rows(kineto.load(file), SAMPLES, STEPS, chain)


def read(path: Path, *what: Any, chain: int | None = None, **more: Any) -> list[cupti.Row]:
    return rows_of(written(path / "t.json", *what, **more), chain)


def faulty(fault: Sequence[Work]) -> list[Sequence[Work]]:
    """The second of three replays is another one."""
    return [REPLAY, fault, REPLAY]


@pytest.mark.parametrize("strays", [False, True])
def test_stages_are_unions_of_their_kernels_and_the_operator_is_first_begin_to_last_end(
    tmp_path: Path, strays: bool
) -> None:
    found = read(tmp_path, strays=strays)
    first = {row.stage: row.time_ns for row in found if row.sample == 1}
    assert first == {"sample_scores": 2000.0, "main": 50500.0, "select": 6000.0, "operator": 60000.0}
    assert len(found) == SAMPLES * 4
    assert {(row.scope, row.flags) for row in found} == {("cupti", "clock-unknown")}


def test_kernels_of_equal_names_are_told_by_their_place(tmp_path: Path) -> None:
    works = [("x", begin, end) for _, begin, end in REPLAY]
    found = read(tmp_path, [works] * SAMPLES, list(zip(OWN, works, strict=True)))
    assert {r.stage: r.time_ns for r in found if r.sample == 0} == {
        "sample_scores": 2000.0, "main": 50500.0, "select": 6000.0, "operator": 60000.0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ((SCORES, RADIX, GATHER), r"kernel 1 of replay 1 is radix .*, and step 1 \(main\) launched main"),
        ((SCORES, MAIN, RADIX), r"kernel 3 of replay 1 is missing, and step 2 \(select\) launched gather"),
        ((), r"kernel 0 of replay 1 is missing"),
        (
            (("main", 0.0, 2.0), ("scores", 3.0, 53.5), RADIX, GATHER),
            r"kernel 0 of replay 1 is main .*, and step 0 \(sample_scores\) launched scores",
        ),
        ((*REPLAY, ("late", 61.0, 62.0)), r"replay 1 holds 5 kernels .* launched 4: kernel 4, late .*, is one more"),
        ((SCORES, MAIN, ("early", 53.6, 53.8), RADIX, GATHER), r"kernel 2 of replay 1 is early"),
        ((SCORES, MAIN, RADIX, ("Memset", 58.1, 58.2), GATHER), r"replay 1 holds other copies or fills than replay 0"),
    ],
    ids=["lost", "last one lost", "all lost", "swapped", "one more", "one more between", "a fill"],
)
def test_planted_a_replay_that_is_not_the_eager_execution_is_an_error(
    tmp_path: Path, fault: Sequence[Work], sentence: str
) -> None:
    with pytest.raises(DataError, match=sentence):
        read(tmp_path, faulty(fault))


def test_planted_a_kernel_with_another_grid_is_another_kernel(tmp_path: Path) -> None:
    file = written(tmp_path / "t.json")
    trace = json.loads(file.read_text())
    last = [e for e in trace["traceEvents"] if e["name"] == "main"][-1]
    last["args"]["grid"] = [1, 1, 1]
    file.write_text(json.dumps(trace))
    with pytest.raises(
        DataError, match=r"main \(grid 1,1,1, block 32,1,1\), and step 1 \(main\) launched main \(grid 4"
    ):
        rows_of(file)


def test_planted_an_eager_launch_without_a_record_or_too_many_are_errors(tmp_path: Path) -> None:
    eager = list(zip(OWN, REPLAY, strict=True))
    with pytest.raises(DataError, match=r"step 1 \(main\) launched 0 kernels, expected 1"):
        read(tmp_path, eager=[eager[0], *eager[2:]])
    with pytest.raises(DataError, match=r"step 1 \(main\) launched 2 kernels, expected 1"):
        read(tmp_path, eager=[*eager, (1, MAIN)])
    with pytest.raises(DataError, match=r"step 2 \(select\) launched 0 kernels, expected at least 1"):
        read(tmp_path, eager=eager[:2])


def test_planted_a_graph_launch_without_a_record_has_no_kernels(tmp_path: Path) -> None:
    """As when the driver's call is made, which the profiler leaves out."""
    file = written(tmp_path / "t.json")
    trace = json.loads(file.read_text())
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e["name"] != "cudaGraphLaunch"]
    file.write_text(json.dumps(trace))
    with pytest.raises(DataError, match="kernel 0 of replay 0 is missing"):
        rows_of(file)


@pytest.mark.parametrize("at", [53.6, 58.2, 60.5], ids=["before its kernels", "among them", "behind them"])
def test_a_fill_counts_to_the_torch_call_beside_it(tmp_path: Path, at: float) -> None:
    works = sorted([*REPLAY, ("Memset", at, at + 0.25)], key=lambda work: work[1])
    found = {r.stage: r.time_ns for r in read(tmp_path, [works] * SAMPLES) if r.sample == 0}
    inside = 58.0 < at < 60.0
    assert found["select"] == (6000.0 if inside else 6250.0)
    assert found["main"] == 50500.0
    assert found["operator"] == (60750.0 if at > 60 else 60000.0)


def test_planted_a_fill_between_two_launches_is_nobodys(tmp_path: Path) -> None:
    works = (SCORES, ("Memset", 2.1, 2.9), MAIN, RADIX, GATHER)
    with pytest.raises(DataError, match=r"a memset behind kernel 0 of replay 0 lies beside launches only"):
        read(tmp_path, [works] * SAMPLES)


def accounted(found: Sequence[cupti.Row]) -> pd.DataFrame:
    """The operator's account of these samples."""
    made = {name: conform(name, frame.assign(run=0)) for name, frame in cupti.tables(found, "warm").items()}
    runs = planted_gpu.measured({"full": {"full": 1e6}}, rounds=1)["runs"]
    return operator_account({"runs": runs, **made}, "full", "cupti", 32.0).set_index("item")


def test_the_operators_account_is_of_each_replay_by_itself(tmp_path: Path) -> None:
    """Replays that differ in all their stages have gaps that differ by 0.1 us, and the interval knows no more."""
    replays = []
    for i in range(SAMPLES):
        shift = 5.0 * i
        late = [(name, begin + shift + 0.1 * i, end + shift + 0.1 * i) for name, begin, end in (RADIX, GATHER)]
        replays.append((SCORES, ("main", 3.0, 53.5 + shift), *late))
    found = accounted(read(tmp_path, replays))
    gaps = found.loc["gaps"]
    assert gaps["time_ns"] == pytest.approx(1600.0)
    assert gaps["verdict"] == "measured"
    assert "replay by replay" in gaps["reason"]
    assert 1000.0 < gaps["low_ns"] < 1500.0 < 1700.0 < gaps["high_ns"] < 2200.0
    assert found.loc["operator", "time_ns"] == pytest.approx(found["time_ns"].iloc[:-1].sum())
    assert found.loc["operator", "high_ns"] - found.loc["operator", "low_ns"] > 10_000


def overlapping(until: float) -> list[Sequence[Work]]:
    """The second of three replays has a main that ends at `until`, us; select begins at 54."""
    return faulty((SCORES, ("main", 3.0, until), RADIX, GATHER))


def test_where_two_stages_are_at_work_at_once_the_time_is_the_first_ones(tmp_path: Path) -> None:
    """main ends 0.032 us behind select's begin: stages and gaps are the operator, replay by replay, and it is no overlap yet."""
    rows = read(tmp_path, overlapping(54.032))
    second = {row.stage: row.time_ns for row in rows if row.sample == 1}
    assert second == {"sample_scores": 2000.0, "main": 51032.0, "select": 5968.0, "operator": 60000.0}
    assert [row.overlap_ns for row in rows if row.stage == "main"] == [0.0, 32.0, 0.0]
    assert not any(cupti.OVERLAP in row.flags for row in rows)
    found = accounted(rows)
    assert found.loc["operator", "time_ns"] == pytest.approx(found["time_ns"].iloc[:-1].sum())
    assert found.loc["gaps", "verdict"] == "measured"
    assert found.loc["gaps", "reason"].endswith(
        "on one timeline; two stages overlap by up to 32 ns, which the first one owns: that its graph is a chain is not known"
    )
    assert accounted(read(tmp_path)).loc["gaps", "reason"].endswith("on one timeline; no two stages overlap")


@pytest.mark.parametrize("chain", [0, None], ids=["no chain", "not known"])
@pytest.mark.parametrize(
    ("over_ns", "verdict"), [(64, "measured"), (65, "undecided"), (192, "undecided"), (3000, "undecided")]
)
def test_planted_an_overlap_blocks_from_what_stamps_can_tell_on(
    tmp_path: Path, over_ns: int, verdict: str, chain: int | None
) -> None:
    assert cupti.STAMPS_NS == 64
    rows = read(tmp_path, overlapping(54.0 + over_ns / 1000), chain=chain)
    blocked = verdict == "undecided"
    assert {r.sample for r in rows if cupti.OVERLAP in r.flags} == ({1} if blocked else set())
    found = accounted(rows)
    assert set(found["verdict"]) == {verdict}
    assert found.loc["gaps", "time_ns"] >= 1000
    assert f"two stages overlap by up to {over_ns} ns" in found.loc["gaps", "reason"]
    assert found.loc["gaps", "reason"].startswith("stages-overlap: 4 of 12 samples; ") == blocked
    graph = "its graph is no chain" if chain == 0 else "that its graph is a chain is not known"
    assert found.loc["gaps", "reason"].endswith(graph)


CHAINED = (SCORES, MAIN, RADIX, ("gather", 58.5, 60.0))
"""As work in a chain of four lies, one launch behind the other."""


def test_an_overlap_in_a_chain_is_the_error_of_stamps_and_makes_intervals_wider(tmp_path: Path) -> None:
    """Of two stages in the second of three replays, or of the two launches of one stage: nothing is flagged."""
    before = accounted(read(tmp_path, [CHAINED] * SAMPLES, chain=4))
    assert before.loc["gaps", "reason"].endswith("no two stages overlap")
    for late in ((SCORES, ("main", 3.0, 54.192), *CHAINED[2:]), (SCORES, MAIN, ("radix", 54.0, 58.692), CHAINED[3])):
        rows = read(tmp_path, [CHAINED, late, CHAINED], chain=4)
        assert {row.flags for row in rows} == {"clock-unknown"}
        assert max(row.overlap_ns for row in rows) == 192
        counters = cupti.tables(rows, "warm")["counters"].set_index("metric")
        assert counters.loc[["stages_overlap", "chain_nodes"], "value"].tolist() == [192, 4]
        found = accounted(rows)
        assert set(found["verdict"]) == {"measured"}
        assert (
            "its graph is a chain, in which stamps overlap by up to 192 ns: their error" in found.loc["gaps", "reason"]
        )
        same = found.loc["sample_scores"] - before.loc["sample_scores", ["time_ns", "low_ns", "high_ns"]]
        assert same[["time_ns", "low_ns", "high_ns"]].tolist() == [0, -192, 192]
        gaps = found.loc["gaps"]
        assert gaps["high_ns"] - gaps["low_ns"] > 2 * 3 * 192  # a chain of four has three edges
        assert found.loc["operator", "time_ns"] == pytest.approx(found["time_ns"].iloc[:-1].sum())


@pytest.mark.parametrize(("chain", "state"), [(4, "value"), (0, "zero"), (None, "absent")])
def test_whether_the_graph_is_a_chain_is_kept(tmp_path: Path, chain: int | None, state: str) -> None:
    tables = cupti.tables(read(tmp_path, [CHAINED] * SAMPLES, chain=chain), "warm")
    kept = tables["counters"].set_index("metric").loc["chain_nodes"]
    assert kept["state"] == state
    assert kept["value"] == chain or chain is None
    assert not {"chain", "overlap_ns"} & set(tables["times"])


def test_planted_a_chain_of_more_nodes_than_launches_is_not_known(tmp_path: Path) -> None:
    """What the other nodes do is not seen, or one node launches several: what runs beside what is not told by their edges."""
    rows = read(tmp_path, overlapping(54.192), chain=3)
    assert {row.chain for row in rows} == {None}
    assert {r.sample for r in rows if cupti.OVERLAP in r.flags} == {1}


def test_planted_a_stage_that_lies_within_another_one_has_no_time_and_is_flagged(tmp_path: Path) -> None:
    """main goes on until the operator's end; and a stage beside the one before the last, which has ended by then."""
    rows = read(tmp_path, overlapping(61.0))
    second = {row.stage: row.time_ns for row in rows if row.sample == 1}
    assert second == {"sample_scores": 2000.0, "main": 58000.0, "select": 0.0, "operator": 61000.0}
    assert {row.overlap_ns for row in rows if row.sample == 1} == {4000.0}
    beside = (("scores", 0.0, 54.5), ("main", 3.0, 53.5), RADIX, GATHER)
    rows = read(tmp_path, faulty(beside))
    second = {row.stage: row.time_ns for row in rows if row.sample == 1}
    assert second == {"sample_scores": 54500.0, "main": 0.0, "select": 5500.0, "operator": 60000.0}
    assert {row.overlap_ns for row in rows if row.sample == 1} == {50500.0}
    assert {r.sample for r in rows if cupti.OVERLAP in r.flags} == {1}
