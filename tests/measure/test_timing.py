"""Turns and rests, and instances of graphs, with stand-ins for the card: what is enqueued in which order, and what waits."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from attribution.errors import MeasureError
from attribution.measure import clocks, graph, timing
from attribution.measure.stamp import FIELDS
from attribution.measure.timing import Timed, Turn
from attribution.recording import open_recording
from attribution.tables import conform

RUN_MS = 2.0


class Card:
    """A stream that executes what is enqueued in order: 2 ms an execution, nothing else takes time on it.

    On the host an execution takes `enqueue_ms`; the card stands still until it is released or the hold is over.
    """

    def __init__(self) -> None:
        self.now_ms, self.log, self.stamps = 0.0, list[str](), list[Any]()
        self.host_ms = self.enqueue_ms = 0.0

    def hold(self, ns: int) -> None:
        self.log.append("hold")
        self.now_ms = self.host_ms + 1e-6 * ns

    def put(self) -> None:
        stamp = np.zeros(1, np.dtype(FIELDS))
        stamp["timer_ns"], stamp["clock"] = self.now_ms * 1e6 + 1, self.now_ms * 1.5e6 + 1
        self.stamps.append(stamp)

    def read(self) -> Any:
        out, self.stamps = np.array(self.stamps), []
        return out

    def turn(self, name: str, **changes: Any) -> Turn:
        def one(i: int, record: Any) -> None:
            record()
            self.log.append(f"{name}{i}")
            self.host_ms += self.enqueue_ms
            self.now_ms = max(self.now_ms, self.host_ms) + RUN_MS
            record()

        return Turn(one, 2, 4, **changes)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    made = Card()

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            self.at = -1.0

        def record(self) -> None:
            self.at = made.now_ms

        def query(self) -> bool:
            return self.at <= made.host_ms

        def elapsed_time(self, other: Any) -> float:
            return float(other.at - self.at)

    torch: Any = ModuleType("torch")
    torch.cuda = SimpleNamespace(Event=Event, synchronize=lambda: made.log.append("sync"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(timing.time, "sleep", lambda s: made.log.append(f"rest {1e3 * s:g} ms"))
    return made


def test_arms_take_turns_and_the_card_rests_as_long_as_it_worked(card: Card) -> None:
    began: list[int] = []
    timed = Timed(2, rest=1.0, longest_ns=RUN_MS * 1e6, began=began.append)
    found = timing.run_pass(card, [card.turn("a"), card.turn("b")], timed)  # type: ignore[arg-type]
    one = ["hold", "{0}0", "{0}1", "{0}2", "{0}3", "sync", "rest 8 ms"]  # two warm-ups fit into 5 ms
    assert card.log == [x.format("a") for x in one] + [x.format("b") for x in one]
    assert began == [0, 1]
    for samples in found:
        assert [span for sample in samples for span in sample.spans_ns] == pytest.approx([2e6, 2e6])
        assert [sample.clock_mhz for sample in samples] == pytest.approx([1500.0, 1500.0])
        assert not any(sample.host_bound for sample in samples)


def test_a_sample_that_the_card_reached_before_it_was_enqueued_is_flagged_and_kept(card: Card) -> None:
    """Planted: an execution takes the host 5 ms and the card 2, so the hold ends early and the card waits for the host."""
    card.enqueue_ms = 5.0
    (samples,) = timing.run_pass(card, [card.turn("a")], Timed(3))  # type: ignore[arg-type]
    assert [sample.host_bound for sample in samples] == [True] * 3
    assert [sample.spans_ns[0] for sample in samples] == pytest.approx([5e6] * 3)  # what was timed is the host
    rows = [timing.Row("event", "operator", i, s.spans_ns[0], s.clock_mhz, s.host_bound) for i, s in enumerate(samples)]
    flags = [
        row["flags"] for row in timing.times_rows(rows, "warm", clocks.Reading(1500.0, 1500.0, reasons=("power-cap",)))
    ]
    assert flags == ["host-bound,power-cap"] * 3
    card.enqueue_ms = 0.01  # the host is ahead
    (samples,) = timing.run_pass(card, [card.turn("a")], Timed(3))  # type: ignore[arg-type]
    assert not any(sample.host_bound for sample in samples)
    conform("times", pd.DataFrame(timing.times_rows(rows[:1], "warm", clocks.Reading())).assign(run=0))


class Replayed:
    """Stands for a `Prepared` whose graphs tell the card what was replayed."""

    def __init__(self, card: Card, name: str) -> None:
        self.card, self.name = card, name

    def graph(self, stage: str = "operator") -> Any:
        def replay() -> None:
            self.card.log.append(f"{self.name} {stage}")
            self.card.now_ms += RUN_MS

        return replay

    def again(self) -> None:
        self.graph()()


def test_a_stage_alone_is_replayed_behind_its_own_operator(card: Card) -> None:
    """What main reads is in memory that the arm before may have written to; the operator needs nothing before it."""
    arms: Any = [[Replayed(card, "a"), Replayed(card, "a'")], [Replayed(card, "b")]]
    timing.graph_samples(arms, card, Timed(2, rest=1.0, longest_ns=RUN_MS * 1e6), ["main", "main"])  # type: ignore[arg-type]
    turns = [turn.strip() for turn in " ".join(card.log).split("sync")]
    assert turns[0] == "a operator a' operator hold a main a' main a main a' main"
    # The card rests as long as it worked in the turn, what was not timed included.
    assert turns[1] == "rest 12 ms b operator hold b main b main b main b main"
    assert turns[2] == "rest 10 ms"
    card.log.clear()
    timing.graph_samples(arms[1:], card, Timed(1), ["operator"])  # type: ignore[arg-type]
    assert card.log[0] == "hold"


@pytest.mark.parametrize(
    ("longest_ns", "copies", "warm"),
    [(1e4, 1, 3), (2e6, 1, 2), (8e6, 1, 1), (0.0, 1, 3), (8e6, 5, 5)],
    ids=["short", "middle", "long", "unknown", "cold"],
)
def test_warm_ups_fit_into_their_time_and_a_cold_turn_visits_every_copy(
    card: Card, longest_ns: float, copies: int, warm: int
) -> None:
    timing.run_pass(card, [card.turn("a", copies=copies)], Timed(1, longest_ns=longest_ns))  # type: ignore[arg-type]
    assert sum(x.startswith("a") for x in card.log) == warm + 1
    assert "rest 0 ms" in card.log


def test_on_a_card_the_flag_tells_the_scope_that_waited_for_the_host_from_the_one_that_did_not(root: Path) -> None:
    """Planted in the recording: behind its launch the host sleeps, of which a graph knows nothing."""
    times = open_recording(root / "traces" / "h200-hello-waiting").table("times").astype({"scope": str, "flags": str})
    late = times["flags"].str.contains(timing.HOST_BOUND)
    assert times.assign(late=late).groupby("scope")["late"].mean().to_dict() == {
        "event": 1.0,
        "graph": 0.0,
        "trace": 0.0,
    }


SAME_BY = 0.1
"""How far an arm's ratio to its base may differ between scopes event and graph: of 100 us kernels it does by 7 %."""


def apart(times: pd.DataFrame, runs: pd.DataFrame) -> float:
    """The most by which main of an arm over main of its base differs between scopes graph (alone) and event (in its operator).

    NaN where not both scopes timed it.
    """
    point = ["distribution", "shape", "question"]
    named = runs[["run", "arm", *point]].astype(dict.fromkeys(("arm", *point), str))
    mains = times[times["stage"] == "main"].astype({"scope": str}).merge(named, on="run")
    median = mains.pivot_table("time_ns", [*point, "arm"], "scope", aggfunc="median").reindex(
        columns=["event", "graph"]
    )
    ratio = (median["graph"] / median["event"]).reset_index("arm", name="ratio")
    base = ratio[ratio["arm"] == ratio.index.get_level_values("question")]["ratio"]
    return float((ratio["ratio"] / base.reindex(ratio.index) - 1).abs().max())


def test_main_alone_tells_arms_apart_as_main_in_its_operator_does(root: Path) -> None:
    """A stage alone is checked by no output: of each recording that timed main in both ways they must agree.

    Planted: main of one arm took 1.9 times as long, alone behind another arm's operator (docs/findings/0020).
    """
    looked = []
    for file in sorted((root / "traces").glob("h200-*/manifest.json")):
        recording = open_recording(file.parent)
        if (
            recording.manifest["kind"] != "run" or file.parent.name == "h200-hello-waiting"
        ):  # its host sleeps, in event only
            continue
        times, runs = recording.table("times"), recording.table("runs")
        most = apart(times, runs)
        if most == most:
            looked.append(file.parent.name)
            assert most < SAME_BY, (file.parent.name, most)
    assert len(looked) >= 10
    assert "h200-index-topk-designs" in looked
    times, runs = (open_recording(root / "traces" / looked[-1]).table(name) for name in ("times", "runs"))
    arm = runs.loc[runs["arm"].astype(str) != runs["question"].astype(str), "arm"].iloc[0]
    behind = (
        times["run"].isin(runs.loc[runs["arm"] == arm, "run"])
        & (times["scope"] == "graph")
        & (times["stage"] == "main")
    )
    planted = times.assign(time_ns=times["time_ns"].where(~behind, 1.9 * times["time_ns"]))
    assert apart(planted, runs) > SAME_BY


def test_a_round_replays_another_instance_and_the_old_one_lives_until_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    made = iter(range(10))

    class Error(int):
        name = "CUDA_ERROR_INVALID_VALUE"

    driver: Any = ModuleType("cuda.bindings.driver")
    driver.CUgraph = driver.CUstream = lambda handle: handle
    driver.cuGraphInstantiate = lambda handle, flags: (Error(0), next(made))
    driver.cuGraphExecDestroy = lambda which: (log.append(f"destroy {which}") or Error(0),)
    driver.cuGraphLaunch = lambda which, stream: (log.append(f"launch {which}") or Error(0),)
    bindings: Any = ModuleType("cuda.bindings")
    bindings.driver = driver
    for name, module in (("cuda", ModuleType("cuda")), ("cuda.bindings", bindings), ("cuda.bindings.driver", driver)):
        monkeypatch.setitem(sys.modules, name, module)

    class Captured:
        def __init__(self, keep_graph: bool) -> None:
            assert keep_graph

        def raw_cuda_graph(self) -> int:
            return 64

    class Capture:
        def __init__(self, into: Any) -> None:
            pass

        def __enter__(self) -> None:
            log.append("capture")

        def __exit__(self, *_: Any) -> None:
            pass

    torch: Any = ModuleType("torch")
    torch.cuda = SimpleNamespace(
        CUDAGraph=Captured, graph=Capture, current_stream=lambda: SimpleNamespace(cuda_stream=7)
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    one = graph.Graph(lambda: log.append("enqueue"))
    one.replay()
    for _ in range(2):
        one.renew()
        one.replay()
    assert log == ["capture", "enqueue", "launch 0", "launch 1", "destroy 0", "launch 2"]
    driver.cuGraphLaunch = lambda which, stream: (Error(1),)
    with pytest.raises(MeasureError, match="CUDA_ERROR_INVALID_VALUE"):
        one.replay()
